"""The GraphQL documents about images: where they are, what is known, and whom they are for."""

from typing import Final

from wharfinger.client import fragments

_CATALOGUE_IMAGE: Final = """
fragment known on CatalogueImage {
  reference rootDigest size status registry
  platforms { os architecture variant size }
  labels
}
"""

IMAGES: Final = """
query Images(
  $first: Int!, $after: String, $reference: String, $registry: String, $statuses: [String!],
  $agentId: ID
) {
  images(
    first: $first, after: $after, reference: $reference, registry: $registry, statuses: $statuses,
    agentId: $agentId
  ) {
    nodes {
      reference rootDigest size status registry protected
      platforms { os architecture variant size }
      labels bytesOnAgents
      agents { agentId status size }
    }
    pageInfo { hasNextPage endCursor }
  }
}
"""

PRELOAD: Final = (
    """
mutation Preload($targetAgents: [String!]!, $references: [String!]!) {
  answer: preloadImage(targetAgents: $targetAgents, references: $references) {
    ... on BackgroundTaskStarted { taskId }
    ...failed
  }
}
"""
    + fragments.FAILURE
)
UNLOAD: Final = (
    """
mutation Unload($targetAgents: [String!]!, $references: [String!]!) {
  answer: unloadImage(targetAgents: $targetAgents, references: $references) {
    ... on BackgroundTaskStarted { taskId }
    ...failed
  }
}
"""
    + fragments.FAILURE
)

PRELOAD_PLAN: Final = (
    """
query PreloadPlan($targetAgents: [String!]!, $references: [String!]!) {
  answer: preloadPlan(targetAgents: $targetAgents, references: $references) {
    ... on PreloadPlanned {
      items {
        agentId reference rootDigest action
        failure { class message detail }
        bytesTotal bytesMissing bytesNeeded layersKnown
        diskFree diskFreeAfter diskTotal
      }
    }
    ...failed
  }
}
"""
    + fragments.FAILURE
)
UNLOAD_PLAN: Final = (
    """
query UnloadPlan($targetAgents: [String!]!, $references: [String!]!) {
  answer: unloadPlan(targetAgents: $targetAgents, references: $references) {
    ... on UnloadPlanned {
      items {
        agentId reference action
        failure { class message detail }
        imageId going keptBy kernels containers queued waitsFor bytesFreed
      }
    }
    ...failed
  }
}
"""
    + fragments.FAILURE
)

REGISTER: Final = (
    """
mutation RegisterImage($reference: String!) {
  answer: registerImage(reference: $reference) { ...known ...failed }
}
"""
    + _CATALOGUE_IMAGE
    + fragments.FAILURE
)
FORGET: Final = (
    """
mutation ForgetImage($reference: String!) {
  answer: forgetImage(reference: $reference) { ...known ...failed }
}
"""
    + _CATALOGUE_IMAGE
    + fragments.FAILURE
)
PROTECT: Final = (
    """
mutation ProtectImage($reference: String!) {
  answer: protectImage(reference: $reference) {
    ... on ImageProtection { reference protected }
    ...failed
  }
}
"""
    + fragments.FAILURE
)
UNPROTECT: Final = (
    """
mutation UnprotectImage($reference: String!) {
  answer: unprotectImage(reference: $reference) {
    ... on ImageProtection { reference protected }
    ...failed
  }
}
"""
    + fragments.FAILURE
)
RESCAN: Final = (
    """
mutation RescanImages($registry: String, $wait: Boolean!) {
  answer: rescanImages(registry: $registry, wait: $wait) {
    ... on BackgroundTaskStarted { taskId }
    ...failed
  }
}
"""
    + fragments.FAILURE
)

GRANTS: Final = "query Grants { imageGrants { path users groups } }"
GRANT: Final = (
    """
mutation GrantImages($path: String!, $users: [String!], $groups: [String!]) {
  answer: grantImages(path: $path, users: $users, groups: $groups) {
    ... on ImageGrants { path users groups }
    ...failed
  }
}
"""
    + fragments.FAILURE
)
REVOKE: Final = (
    """
mutation RevokeImages($path: String!, $users: [String!], $groups: [String!]) {
  answer: revokeImages(path: $path, users: $users, groups: $groups) {
    ... on ImageGrants { path users groups }
    ...failed
  }
}
"""
    + fragments.FAILURE
)
