"""The GraphQL documents the client sends."""

from typing import Final

_FAILURE: Final = """
fragment failed on Failure { failureClass: class failureMessage: message failureDetail: detail }
"""

_AGENT: Final = """
fragment agent on Agent {
  id scalingGroup status cordoned os architecture variant version
  engine { kind version store problem }
  slots occupied heardSecondsAgo
}
"""

_TASK: Final = """
fragment task on Task {
  id name owner status cancelRequested
  progress { current total unit }
  message
  failure { class message detail }
  createdAt startedAt endedAt
}
fragment item on TaskItem {
  agentId reference rootDigest status phase attempts
  failure { class message detail }
  bytesDone bytesTotal bytesPerSecond etaSeconds keptBy
}
"""

_SESSION: Final = """
fragment session on Session {
  id name owner scalingGroup status statusInfo statusData createdAt endedAt
}
fragment kernel on Kernel {
  id agentId reference rootDigest status statusInfo statusData attempts exitCode
  failure { class message detail }
  slots { cpu mem gpu }
  pull { phase bytesDone bytesTotal bytesPerSecond etaSeconds }
  command startedAt endedAt
}
"""
_WHOLE_SESSION: Final = (
    """
fragment whole on Session {
  ...session kernels { ...kernel transitions { from to at reason by } }
}
"""
    + _SESSION
)

_RIGHTS: Final = """
  id name role
  limits { sessions cpu mem gpu }
  scalingGroups
  occupied { sessions cpu mem gpu }
"""
_USER: Final = "fragment user on User {" + _RIGHTS + " createdAt }"

AGENTS: Final = "query Agents { agents { ...agent } }" + _AGENT

AGENT: Final = (
    """
query Agent($id: ID!) {
  answer: agent(id: $id) {
    ... on Agent {
      ...agent
      images { reference rootDigest imageId size }
      transitions { from to at reason by }
    }
    ...failed
  }
}
"""
    + _AGENT
    + _FAILURE
)

IMAGES: Final = """
query Images($first: Int!, $after: String, $reference: String, $agentId: ID) {
  images(first: $first, after: $after, reference: $reference, agentId: $agentId) {
    nodes { reference rootDigest size agents { agentId status } }
    pageInfo { hasNextPage endCursor }
  }
}
"""

TASKS: Final = (
    """
query Tasks($first: Int!, $after: String, $status: [String!], $withItems: Boolean!) {
  tasks(first: $first, after: $after, status: $status) {
    nodes { ...task items @include(if: $withItems) { ...item } }
    pageInfo { hasNextPage endCursor }
  }
}
"""
    + _TASK
)

TASK: Final = (
    """
query Task($id: ID!) {
  answer: task(id: $id) {
    ... on Task { ...task items { ...item } transitions { from to at reason by } }
    ...failed
  }
}
"""
    + _TASK
    + _FAILURE
)

SESSIONS: Final = (
    """
query Sessions($first: Int!, $after: String, $status: [String!], $withLogs: Boolean!) {
  sessions(first: $first, after: $after, status: $status) {
    nodes {
      ...session
      kernels { ...kernel transitions @include(if: $withLogs) { from to at reason by } }
    }
    pageInfo { hasNextPage endCursor }
  }
}
"""
    + _SESSION
)

SESSION: Final = (
    "query Session($id: ID!) { answer: session(id: $id) { ...whole ...failed } }"
    + _WHOLE_SESSION
    + _FAILURE
)

REGISTRIES: Final = "query Registries { registries { host url username } }"
USERS: Final = "query Users { users { ...user } }" + _USER
VIEWER: Final = "query Viewer { viewer {" + _RIGHTS + "} }"
TOKENS: Final = "query Tokens { tokens { id user label createdAt } }"

PRELOAD: Final = (
    """
mutation Preload($targetAgents: [String!]!, $references: [String!]!) {
  answer: preloadImage(targetAgents: $targetAgents, references: $references) {
    ... on BackgroundTaskStarted { taskId }
    ...failed
  }
}
"""
    + _FAILURE
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
    + _FAILURE
)

CANCEL_TASK: Final = (
    """
mutation CancelTask($id: ID!) {
  answer: cancelTask(id: $id) { ... on Task { ...task items { ...item } } ...failed }
}
"""
    + _TASK
    + _FAILURE
)

CREATE_SESSION: Final = (
    """
mutation CreateSession($kernels: [KernelSpec!]!, $name: String, $scalingGroup: String) {
  answer: createSession(kernels: $kernels, name: $name, scalingGroup: $scalingGroup) {
    ...whole
    ...failed
  }
}
"""
    + _WHOLE_SESSION
    + _FAILURE
)
TERMINATE_SESSION: Final = (
    "mutation TerminateSession($id: ID!) "
    "{ answer: terminateSession(id: $id) { ...whole ...failed } }" + _WHOLE_SESSION + _FAILURE
)
CANCEL_SESSION: Final = (
    "mutation CancelSession($id: ID!, $force: Boolean!) "
    "{ answer: cancelSession(id: $id, force: $force) { ...whole ...failed } }"
    + _WHOLE_SESSION
    + _FAILURE
)
FORCE_CANCEL_KERNEL: Final = (
    "mutation ForceCancelKernel($id: ID!) "
    "{ answer: forceCancelKernel(id: $id) { ...whole ...failed } }" + _WHOLE_SESSION + _FAILURE
)

CORDON_AGENT: Final = (
    "mutation CordonAgent($id: ID!) "
    "{ answer: cordonAgent(id: $id) { ... on Agent { ...agent } ...failed } }" + _AGENT + _FAILURE
)
UNCORDON_AGENT: Final = (
    "mutation UncordonAgent($id: ID!) "
    "{ answer: uncordonAgent(id: $id) { ... on Agent { ...agent } ...failed } }" + _AGENT + _FAILURE
)
REMOVE_AGENT: Final = (
    "mutation RemoveAgent($id: ID!) "
    "{ answer: removeAgent(id: $id) { ... on Agent { ...agent } ...failed } }" + _AGENT + _FAILURE
)

ADD_REGISTRY: Final = (
    """
mutation AddRegistry($url: String!, $username: String, $password: String) {
  answer: addRegistry(url: $url, username: $username, password: $password) {
    ... on Registry { host url username }
    ...failed
  }
}
"""
    + _FAILURE
)
REMOVE_REGISTRY: Final = (
    """
mutation RemoveRegistry($host: String!) {
  answer: removeRegistry(host: $host) { ... on Registry { host url username } ...failed }
}
"""
    + _FAILURE
)

CREATE_JOIN_TOKEN: Final = (
    """
mutation CreateJoinToken($label: String!) {
  answer: createJoinToken(label: $label) { ... on JoinTokenCreated { id token } ...failed }
}
"""
    + _FAILURE
)

ADD_USER: Final = (
    """
mutation AddUser($name: String!, $role: String!) {
  answer: addUser(name: $name, role: $role) { ...user ...failed }
}
"""
    + _USER
    + _FAILURE
)
REMOVE_USER: Final = (
    """
mutation RemoveUser($name: String!) {
  answer: removeUser(name: $name) { ...user ...failed }
}
"""
    + _USER
    + _FAILURE
)

SET_USER_LIMITS: Final = (
    """
mutation SetUserLimits(
  $name: String!, $maxSessions: Int, $cpu: Float, $mem: BigInt, $gpu: Int,
  $scalingGroups: [String!]
) {
  answer: setUserLimits(
    name: $name, maxSessions: $maxSessions, cpu: $cpu, mem: $mem, gpu: $gpu,
    scalingGroups: $scalingGroups
  ) { ...user ...failed }
}
"""
    + _USER
    + _FAILURE
)

CREATE_TOKEN: Final = (
    """
mutation CreateToken($user: String!, $label: String!) {
  answer: createToken(user: $user, label: $label) {
    ... on TokenCreated { id token }
    ...failed
  }
}
"""
    + _FAILURE
)
REVOKE_TOKEN: Final = (
    """
mutation RevokeToken($id: ID!) {
  answer: revokeToken(id: $id) { ... on Token { id user label createdAt } ...failed }
}
"""
    + _FAILURE
)
