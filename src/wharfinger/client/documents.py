"""The GraphQL documents the client sends; those about images stand in `image_documents`."""

from typing import Final

from wharfinger.client import fragments

_AGENT: Final = """
fragment agent on Agent {
  id scalingGroup status cordoned os architecture variant version
  engine { kind version store problem }
  slots occupied disk { free total } heardSecondsAgo
}
"""

_TASK: Final = """
fragment task on Task {
  id name owner status cancelRequested
  progress { current total unit }
  message
  failure { class message detail }
  detail waitsFor
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
_USER: Final = "fragment user on User {" + _RIGHTS + " groups createdAt }"

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
    + fragments.FAILURE
)

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
    + fragments.FAILURE
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
    + fragments.FAILURE
)

REGISTRIES: Final = "query Registries { registries { host url username } }"
USERS: Final = "query Users { users { ...user } }" + _USER
VIEWER: Final = "query Viewer { viewer {" + _RIGHTS + "} }"
TOKENS: Final = "query Tokens { tokens { id user label createdAt } }"

CANCEL_TASK: Final = (
    """
mutation CancelTask($id: ID!) {
  answer: cancelTask(id: $id) { ... on Task { ...task items { ...item } } ...failed }
}
"""
    + _TASK
    + fragments.FAILURE
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
    + fragments.FAILURE
)
TERMINATE_SESSION: Final = (
    "mutation TerminateSession($id: ID!) "
    "{ answer: terminateSession(id: $id) { ...whole ...failed } }"
    + _WHOLE_SESSION
    + fragments.FAILURE
)
CANCEL_SESSION: Final = (
    "mutation CancelSession($id: ID!, $force: Boolean!) "
    "{ answer: cancelSession(id: $id, force: $force) { ...whole ...failed } }"
    + _WHOLE_SESSION
    + fragments.FAILURE
)
FORCE_CANCEL_KERNEL: Final = (
    "mutation ForceCancelKernel($id: ID!) "
    "{ answer: forceCancelKernel(id: $id) { ...whole ...failed } }"
    + _WHOLE_SESSION
    + fragments.FAILURE
)

CORDON_AGENT: Final = (
    "mutation CordonAgent($id: ID!) "
    "{ answer: cordonAgent(id: $id) { ... on Agent { ...agent } ...failed } }"
    + _AGENT
    + fragments.FAILURE
)
UNCORDON_AGENT: Final = (
    "mutation UncordonAgent($id: ID!) "
    "{ answer: uncordonAgent(id: $id) { ... on Agent { ...agent } ...failed } }"
    + _AGENT
    + fragments.FAILURE
)
REMOVE_AGENT: Final = (
    "mutation RemoveAgent($id: ID!) "
    "{ answer: removeAgent(id: $id) { ... on Agent { ...agent } ...failed } }"
    + _AGENT
    + fragments.FAILURE
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
    + fragments.FAILURE
)
REMOVE_REGISTRY: Final = (
    """
mutation RemoveRegistry($host: String!) {
  answer: removeRegistry(host: $host) { ... on Registry { host url username } ...failed }
}
"""
    + fragments.FAILURE
)

CREATE_JOIN_TOKEN: Final = (
    """
mutation CreateJoinToken($label: String!) {
  answer: createJoinToken(label: $label) { ... on JoinTokenCreated { id token } ...failed }
}
"""
    + fragments.FAILURE
)

ADD_USER: Final = (
    """
mutation AddUser($name: String!, $role: String!) {
  answer: addUser(name: $name, role: $role) { ...user ...failed }
}
"""
    + _USER
    + fragments.FAILURE
)
REMOVE_USER: Final = (
    """
mutation RemoveUser($name: String!) {
  answer: removeUser(name: $name) { ...user ...failed }
}
"""
    + _USER
    + fragments.FAILURE
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
    + fragments.FAILURE
)

CHANGE_USER_GROUPS: Final = (
    """
mutation ChangeUserGroups($name: String!, $add: [String!], $remove: [String!]) {
  answer: changeUserGroups(name: $name, add: $add, remove: $remove) { ...user ...failed }
}
"""
    + _USER
    + fragments.FAILURE
)

AUDIT: Final = """
query Audit($first: Int!, $after: String, $actor: String, $action: String, $target: String) {
  auditEntries(first: $first, after: $after, actor: $actor, action: $action, target: $target) {
    nodes { id at actor action target detail }
    pageInfo { hasNextPage endCursor }
  }
}
"""

CREATE_TOKEN: Final = (
    """
mutation CreateToken($user: String!, $label: String!) {
  answer: createToken(user: $user, label: $label) {
    ... on TokenCreated { id token }
    ...failed
  }
}
"""
    + fragments.FAILURE
)
REVOKE_TOKEN: Final = (
    """
mutation RevokeToken($id: ID!) {
  answer: revokeToken(id: $id) { ... on Token { id user label createdAt } ...failed }
}
"""
    + fragments.FAILURE
)
