"""The catalogue, plans, grants and the audit log through GraphQL."""

from typing import Any

import pytest
from rig.api import Api

from wharfinger.domain.errors import (
    InvalidReference,
    NoAgents,
    RescanBlocked,
    UnknownRegistry,
    UnknownSelector,
    WharfingerError,
)
from wharfinger.domain.failures import Failure, FailureClass, FailureError

REFERENCE = "h.test/app:v1"
FAILED = "... on Failure { class message detail }"

REGISTER = f"""
mutation($reference: String!) {{
  registerImage(reference: $reference) {{
    __typename {FAILED}
    ... on CatalogueImage {{
      reference status registry size labels platforms {{ os architecture variant size }}
    }}
  }}
}}
"""
RESCAN = f"""
mutation($registry: String, $wait: Boolean! = false) {{
  rescanImages(registry: $registry, wait: $wait) {{
    __typename {FAILED}
    ... on BackgroundTaskStarted {{ taskId }}
    ... on RescanBlocked {{ taskIds }}
  }}
}}
"""
PRELOAD_PLAN = f"""
query($references: [String!]!) {{
  preloadPlan(targetAgents: ["a-1"], references: $references) {{
    __typename {FAILED}
    ... on PreloadPlanned {{
      items {{ agentId reference action bytesMissing bytesNeeded diskFree diskFreeAfter diskTotal }}
    }}
  }}
}}
"""
UNLOAD_PLAN = f"""
query($references: [String!]!) {{
  unloadPlan(targetAgents: ["a-1"], references: $references) {{
    __typename {FAILED}
    ... on UnloadPlanned {{
      items {{ agentId action kernels bytesFreed waitsFor failure {{ class message }} }}
    }}
  }}
}}
"""
GROUPS = f"""
mutation($name: String!, $add: [String!], $remove: [String!]) {{
  changeUserGroups(name: $name, add: $add, remove: $remove) {{
    __typename {FAILED} ... on User {{ name groups }}
  }}
}}
"""
AUDIT = """
query($first: Int! = 50, $after: String, $actor: String, $action: String, $target: String) {
  auditEntries(first: $first, after: $after, actor: $actor, action: $action, target: $target) {
    nodes { actor action target detail } pageInfo { hasNextPage endCursor }
  }
}
"""
SUPERADMINS = [
    'mutation { registerImage(reference: "h.test/a:1") { __typename } }',
    'mutation { forgetImage(reference: "h.test/a:1") { __typename } }',
    'mutation { protectImage(reference: "h.test/a:1") { __typename } }',
    'mutation { unprotectImage(reference: "h.test/a:1") { __typename } }',
    "mutation { rescanImages { __typename } }",
    'mutation { grantImages(path: "h.test", users: ["ann"]) { __typename } }',
    'mutation { revokeImages(path: "h.test") { __typename } }',
    'mutation { changeUserGroups(name: "ann", add: ["x"]) { __typename } }',
    'query { preloadPlan(targetAgents: ["a"], references: ["h.test/a:1"]) { __typename } }',
    'query { unloadPlan(targetAgents: ["a"], references: ["h.test/a:1"]) { __typename } }',
]


@pytest.mark.parametrize("document", SUPERADMINS)
async def test_a_plain_user_may_not(api: Api, document: str) -> None:
    (answer,) = (await api.data(document, user="ann")).values()
    assert answer == {"__typename": "Forbidden"}
    assert api.catalogue.asked == []


@pytest.mark.parametrize("field", ["imageGrants { path }", "auditEntries { nodes { action } }"])
async def test_a_plain_user_may_not_read(api: Api, field: str) -> None:
    answer = await api.graphql(f"{{ {field} }}", user="ann")
    assert [error["extensions"]["class"] for error in answer["errors"]] == ["forbidden"]


async def test_an_image_is_registered_and_forgotten(api: Api) -> None:
    registered = (await api.data(REGISTER, reference=REFERENCE))["registerImage"]
    assert registered == {
        "__typename": "CatalogueImage",
        "reference": REFERENCE,
        "status": "known",
        "registry": "h.test",
        "size": 5 * 10**9,
        "labels": {"made.by": "test"},
        "platforms": [
            {"os": "linux", "architecture": "amd64", "variant": "", "size": 5 * 10**9},
            {"os": "linux", "architecture": "arm64", "variant": "v8", "size": None},
        ],
    }
    forget = REGISTER.replace("registerImage", "forgetImage")
    assert (await api.data(forget, reference=REFERENCE))["forgetImage"]["status"] == "forgotten"
    answer = (await api.data(forget, reference="h.test/other:v1"))["forgetImage"]
    assert (answer["__typename"], answer["class"]) == ("UnknownId", "unknown-id")


@pytest.mark.parametrize(
    ("refusal", "named"),
    [
        (UnknownRegistry("which?", known=[]), "UnknownRegistry"),
        (InvalidReference("no reference", position=0), "InvalidReference"),
        (FailureError(Failure(FailureClass.NOT_FOUND, "manifest unknown")), "ImageNotFound"),
        (FailureError(Failure(FailureClass.AUTH, "denied")), "RegistryAccessDenied"),
        (FailureError(Failure(FailureClass.NETWORK, "unplugged")), "RegistryUnreachable"),
        (FailureError(Failure(FailureClass.NOT_AN_IMAGE, "a chart")), "Refused"),
    ],
)
async def test_what_cannot_be_registered_is_told_by_name(
    api: Api, refusal: WharfingerError, named: str
) -> None:
    api.catalogue.refusal = refusal
    answer = (await api.data(REGISTER, reference=REFERENCE))["registerImage"]
    assert answer["__typename"] == named
    assert answer["message"] == refusal.message


async def test_an_image_is_protected_and_let_go(api: Api) -> None:
    protect = """mutation { protectImage(reference: "h.test/app:v1") {
      ... on ImageProtection { reference protected } } }"""
    unprotect = protect.replace("protectImage", "unprotectImage")
    assert await api.data(protect) == {"protectImage": {"reference": REFERENCE, "protected": True}}
    assert await api.data(unprotect) == {
        "unprotectImage": {"reference": REFERENCE, "protected": False}
    }
    again = unprotect.replace("... on", "__typename ... on")
    assert (await api.data(again))["unprotectImage"] == {"__typename": "UnknownId"}


async def test_a_rescan_is_started_for_one_registry_or_all(api: Api) -> None:
    started = (await api.data(RESCAN))["rescanImages"]
    assert started == {"__typename": "BackgroundTaskStarted", "taskId": "rescan-1"}
    await api.data(RESCAN, registry="h.test", wait=True)
    assert api.catalogue.asked == [("rescan all", "root"), ("rescan h.test waiting", "root")]


async def test_a_blocked_rescan_names_what_it_would_wait_for(api: Api) -> None:
    api.catalogue.refusal = RescanBlocked("two preloads run", taskIds=["t1", "t2"])
    answer = (await api.data(RESCAN))["rescanImages"]
    assert (answer["__typename"], answer["class"]) == ("RescanBlocked", "rescan-blocked")
    assert answer["taskIds"] == ["t1", "t2"]


async def test_plans_tell_agent_by_agent(api: Api) -> None:
    (item,) = (await api.data(PRELOAD_PLAN, references=[REFERENCE]))["preloadPlan"]["items"]
    assert item == {
        "agentId": "a-1",
        "reference": REFERENCE,
        "action": "pull",
        "bytesMissing": 4 * 10**9,
        "bytesNeeded": 8 * 10**9,
        "diskFree": 9 * 10**9,
        "diskFreeAfter": 10**9,
        "diskTotal": 10**10,
    }
    (item,) = (await api.data(UNLOAD_PLAN, references=[REFERENCE]))["unloadPlan"]["items"]
    assert item == {
        "agentId": "a-1",
        "action": "fail",
        "kernels": ["k1"],
        "bytesFreed": 5 * 10**9,
        "waitsFor": None,
        "failure": {"class": "in-use", "message": "a session runs it"},
    }


@pytest.mark.parametrize(
    ("refusal", "named"),
    [
        (UnknownSelector("which?", unknown=["a-1"], known=[]), "UnknownSelector"),
        (NoAgents("none"), "NoAgents"),
        (InvalidReference("no reference", position=0), "InvalidReference"),
    ],
)
@pytest.mark.parametrize("document", [PRELOAD_PLAN, UNLOAD_PLAN])
async def test_what_cannot_be_planned_is_told_by_name(
    api: Api, document: str, refusal: WharfingerError, named: str
) -> None:
    api.images.refusal = refusal
    (answer,) = (await api.data(document, references=["x"])).values()
    assert (answer["__typename"], answer["class"]) == (named, refusal.code)


async def test_paths_are_granted_and_opened_again(api: Api) -> None:
    grant = """mutation { grantImages(path: "h.test/ml", users: ["bob", "ann"], groups: ["ml"]) {
      ... on ImageGrants { path users groups } } }"""
    granted = {"path": "h.test/ml", "users": ["ann", "bob"], "groups": ["ml"]}
    assert await api.data(grant) == {"grantImages": granted}
    assert await api.data("{ imageGrants { path users groups } }") == {"imageGrants": [granted]}
    revoke = """mutation { revokeImages(path: "h.test/ml") {
      ... on ImageGrants { path users groups } } }"""
    opened = {"path": "h.test/ml", "users": [], "groups": []}
    assert await api.data(revoke) == {"revokeImages": opened}


async def test_groups_are_shown_with_their_users(api: Api) -> None:
    answer = (await api.data(GROUPS, name="ann", add=["ml", "vision"]))["changeUserGroups"]
    assert answer == {"__typename": "User", "name": "ann", "groups": ["ml", "vision"]}
    await api.data(GROUPS, name="ann", remove=["ml"])
    users = (await api.data("{ users { name groups } }"))["users"]
    assert {"name": "ann", "groups": ["vision"]} in users


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"name": "nobody", "add": ["ml"]}, "UnknownId"),
        ({"name": "ann", "add": ["no name"]}, "InvalidRequest"),
        ({"name": "ann", "remove": ["no name"]}, "InvalidRequest"),
        ({"name": "ann"}, "InvalidRequest"),
        ({"name": "ann", "remove": [f"g{number}" for number in range(101)]}, "InvalidRequest"),
        ({"name": "ann", "add": ["x" * 10_000]}, "InvalidRequest"),
        ({"name": "ann", "add": ["ml"], "remove": ["ml"]}, "InvalidRequest"),
    ],
)
async def test_groups_that_cannot_be_changed_are_refused(
    api: Api, asked: dict[str, Any], named: str
) -> None:
    assert (await api.data(GROUPS, **asked))["changeUserGroups"]["__typename"] == named


async def test_what_superadmins_do_to_people_and_agents_is_in_the_audit_log(api: Api) -> None:
    for deed in (
        'mutation { addUser(name: "cat") { __typename } }',
        'mutation { setUserLimits(name: "cat", maxSessions: 2) { __typename } }',
        'mutation { changeUserGroups(name: "cat", add: ["ml"]) { __typename } }',
        'mutation { createToken(user: "cat", label: "laptop") { __typename } }',
        'mutation { createJoinToken(label: "rack 1") { __typename } }',
        'mutation { removeUser(name: "cat") { __typename } }',
        'mutation { removeUser(name: "nobody") { __typename } }',
    ):
        await api.data(deed)
    nodes = (await api.data(AUDIT, actor="root"))["auditEntries"]["nodes"]
    assert [
        (node["action"], node["target"]) for node in nodes if "token" not in node["action"]
    ] == [
        ("user.remove", "cat"),
        ("user.groups", "cat"),
        ("user.limit", "cat"),
        ("user.add", "cat"),
    ]
    assert [node["detail"] for node in nodes if node["action"] == "token.create"] == [
        {"user": "cat", "label": "laptop"}
    ]
    assert "laptop" not in str([node["target"] for node in nodes])


async def test_the_audit_log_is_told_page_by_page_and_narrowed(api: Api) -> None:
    for name in ("cat", "dan", "eve"):
        await api.data(f'mutation {{ addUser(name: "{name}") {{ __typename }} }}')
    page = (await api.data(AUDIT, first=2, action="user"))["auditEntries"]
    assert [node["target"] for node in page["nodes"]] == ["eve", "dan"]
    rest = await api.data(AUDIT, after=page["pageInfo"]["endCursor"], actor="root")
    assert [node["target"] for node in rest["auditEntries"]["nodes"]] == ["cat"]
    narrowed = await api.data(AUDIT, target="da")
    assert [node["target"] for node in narrowed["auditEntries"]["nodes"]] == ["dan"]


@pytest.mark.parametrize(
    "asked",
    [{"action": "rubbish"}, {"after": "rubbish"}, {"after": "MTIz" * 40}, {"first": 0}],
)
async def test_rubbish_asked_of_the_audit_log_is_refused(api: Api, asked: dict[str, Any]) -> None:
    answer = await api.graphql(AUDIT, **asked)
    assert [error["extensions"]["class"] for error in answer["errors"]] == ["invalid-request"]
