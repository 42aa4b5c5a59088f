"""What root fields answer where more than one thing can come of them."""

from typing import Annotated

import strawberry

from wharfinger.manager.api.graphql.failures import (
    Conflict,
    Forbidden,
    ImageNotFound,
    InvalidReference,
    InvalidRequest,
    NoAgents,
    Refused,
    RegistryAccessDenied,
    RegistryUnreachable,
    RescanBlocked,
    UnknownId,
    UnknownRegistry,
    UnknownSelector,
)
from wharfinger.manager.api.graphql.images import (
    CatalogueImage,
    ImageGrants,
    ImageProtection,
    PreloadPlanned,
    UnloadPlanned,
)
from wharfinger.manager.api.graphql.people import JoinTokenCreated, Token, TokenCreated, User
from wharfinger.manager.api.graphql.sessions import Session
from wharfinger.manager.api.graphql.types import Agent, BackgroundTaskStarted, Registry, Task

AgentResult = Annotated[Agent | UnknownId | Forbidden, strawberry.union("AgentResult")]
AgentChangeResult = Annotated[
    Agent | UnknownId | Forbidden | Conflict, strawberry.union("AgentChangeResult")
]
TaskResult = Annotated[Task | UnknownId | Forbidden, strawberry.union("TaskResult")]
CancelTaskResult = Annotated[
    Task | UnknownId | Forbidden | Conflict, strawberry.union("CancelTaskResult")
]
SessionResult = Annotated[Session | UnknownId | Forbidden, strawberry.union("SessionResult")]
CreateSessionResult = Annotated[
    Session
    | UnknownSelector
    | UnknownRegistry
    | InvalidReference
    | ImageNotFound
    | RegistryAccessDenied
    | RegistryUnreachable
    | Refused
    | Forbidden
    | Conflict
    | InvalidRequest,
    strawberry.union("CreateSessionResult"),
]
EndSessionResult = Annotated[
    Session | UnknownId | Forbidden | Conflict, strawberry.union("EndSessionResult")
]
PreloadImageResult = Annotated[
    BackgroundTaskStarted
    | UnknownSelector
    | NoAgents
    | UnknownRegistry
    | InvalidReference
    | ImageNotFound
    | RegistryAccessDenied
    | RegistryUnreachable
    | Refused
    | Forbidden
    | Conflict
    | InvalidRequest,
    strawberry.union("PreloadImageResult"),
]
UnloadImageResult = Annotated[
    BackgroundTaskStarted
    | UnknownSelector
    | NoAgents
    | UnknownRegistry
    | InvalidReference
    | ImageNotFound
    | RegistryAccessDenied
    | RegistryUnreachable
    | Refused
    | Forbidden
    | Conflict
    | InvalidRequest,
    strawberry.union("UnloadImageResult"),
]
PreloadPlanResult = Annotated[
    PreloadPlanned
    | UnknownSelector
    | NoAgents
    | UnknownRegistry
    | InvalidReference
    | ImageNotFound
    | RegistryAccessDenied
    | RegistryUnreachable
    | Refused
    | Forbidden
    | InvalidRequest,
    strawberry.union("PreloadPlanResult"),
]
UnloadPlanResult = Annotated[
    UnloadPlanned | UnknownSelector | NoAgents | InvalidReference | Forbidden | InvalidRequest,
    strawberry.union("UnloadPlanResult"),
]
RegisterImageResult = Annotated[
    CatalogueImage
    | UnknownRegistry
    | InvalidReference
    | ImageNotFound
    | RegistryAccessDenied
    | RegistryUnreachable
    | Refused
    | Forbidden,
    strawberry.union("RegisterImageResult"),
]
ForgetImageResult = Annotated[
    CatalogueImage | UnknownId | InvalidReference | Forbidden,
    strawberry.union("ForgetImageResult"),
]
ProtectImageResult = Annotated[
    ImageProtection | UnknownId | InvalidReference | Forbidden,
    strawberry.union("ProtectImageResult"),
]
RescanImagesResult = Annotated[
    BackgroundTaskStarted | RescanBlocked | UnknownRegistry | Forbidden | InvalidRequest,
    strawberry.union("RescanImagesResult"),
]
GrantImagesResult = Annotated[
    ImageGrants | UnknownId | UnknownRegistry | Forbidden | Conflict | InvalidRequest,
    strawberry.union("GrantImagesResult"),
]
AddRegistryResult = Annotated[
    Registry
    | Forbidden
    | Conflict
    | InvalidRequest
    | InvalidReference
    | ImageNotFound
    | RegistryAccessDenied
    | RegistryUnreachable
    | Refused,
    strawberry.union("AddRegistryResult"),
]
RemoveRegistryResult = Annotated[
    Registry | UnknownRegistry | UnknownId | Forbidden | Conflict,
    strawberry.union("RemoveRegistryResult"),
]
CreateJoinTokenResult = Annotated[
    JoinTokenCreated | Forbidden | InvalidRequest, strawberry.union("CreateJoinTokenResult")
]
AddUserResult = Annotated[
    User | Forbidden | Conflict | InvalidRequest, strawberry.union("AddUserResult")
]
RemoveUserResult = Annotated[
    User | UnknownId | Forbidden | Conflict, strawberry.union("RemoveUserResult")
]
SetUserLimitsResult = Annotated[
    User | UnknownId | Forbidden | InvalidRequest, strawberry.union("SetUserLimitsResult")
]
ChangeUserGroupsResult = Annotated[
    User | UnknownId | Forbidden | InvalidRequest, strawberry.union("ChangeUserGroupsResult")
]
CreateTokenResult = Annotated[
    TokenCreated | UnknownId | Forbidden | InvalidRequest, strawberry.union("CreateTokenResult")
]
RevokeTokenResult = Annotated[Token | UnknownId | Forbidden, strawberry.union("RevokeTokenResult")]
