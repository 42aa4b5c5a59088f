import asyncio
from typing import Any

import pytest
from graphql import get_introspection_query
from rig.api import Api

from wharfinger.domain import errors
from wharfinger.domain.failures import Failure, FailureClass, FailureError
from wharfinger.domain.states import TaskStatus
from wharfinger.manager.background.port import ProgressReporter, TaskResult
from wharfinger.manager.images.listing import ImageOnAgent, ImageView

FAILED = "... on Failure { class message detail }"
PRELOAD = (
    'mutation { answer: preloadImage(targetAgents: ["*"], references: ["h/app:v1"])'
    " { __typename ... on BackgroundTaskStarted { taskId } " + FAILED + " } }"
)


async def at_once(reporter: ProgressReporter) -> TaskResult:
    await reporter(current=3 * 10**9, maximum=4 * 10**9, message="nearly")
    return TaskResult(TaskStatus.SUCCEEDED, "done")


async def for_ever(reporter: ProgressReporter) -> TaskResult:
    del reporter
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")


async def start(api: Api, owner: str, body: Any = at_once, name: str = "test") -> str:
    return await api.background.start_background_task(
        body, name=name, owner_id=await api.user_id(owner)
    )


async def end_of(api: Api, task_id: str) -> None:
    async with api.background.watch(task_id) as events:
        async for _ in events:
            pass


async def test_introspection_is_answered_to_users(api: Api) -> None:
    answer = await api.data(get_introspection_query(), user="ann")
    assert answer["__schema"]["queryType"]["name"] == "Query"


async def test_a_preload_answers_the_task_and_who_asked(api: Api) -> None:
    answer = (await api.data(PRELOAD))["answer"]
    assert answer == {"__typename": "BackgroundTaskStarted", "taskId": "task-1"}
    assert api.images.asked == [(["*"], ["h/app:v1"], await api.user_id("root"))]


@pytest.mark.parametrize(
    ("refusal", "name", "failure_class"),
    [
        (errors.UnknownSelector("no x", known=["a"]), "UnknownSelector", "unknown-selector"),
        (errors.NoAgents("none"), "NoAgents", "no-agents"),
        (errors.UnknownRegistry("no h"), "UnknownRegistry", "unknown-registry"),
        (errors.InvalidReference("bad"), "InvalidReference", "invalid-reference"),
        (errors.Conflict("stopping"), "Conflict", "conflict"),
        (FailureError(Failure(FailureClass.NOT_FOUND, "no tag")), "ImageNotFound", "not-found"),
        (FailureError(Failure(FailureClass.AUTH, "denied")), "RegistryAccessDenied", "auth"),
        (FailureError(Failure(FailureClass.NETWORK, "down")), "RegistryUnreachable", "network"),
        (FailureError(Failure(FailureClass.CORRUPT, "broken")), "Refused", "corrupt"),
    ],
)
async def test_a_refused_preload_is_a_named_failure(
    api: Api, refusal: errors.WharfingerError, name: str, failure_class: str
) -> None:
    api.images.refusal = refusal
    answer = (await api.data(PRELOAD))["answer"]
    assert answer == {
        "__typename": name,
        "class": failure_class,
        "message": refusal.message,
        "detail": refusal.detail,
    }


async def test_a_defect_is_masked_and_logged_with_the_request_id(
    api: Api, logged: list[Any]
) -> None:
    api.images.refusal = ZeroDivisionError("the password is hunter2")
    answer = await api.client.post(
        "/graphql",
        json={"query": PRELOAD},
        headers={**api.headers("root"), "X-Request-Id": "find-me"},
    )
    assert "hunter2" not in answer.text
    assert "ZeroDivision" not in answer.text
    (error,) = answer.json()["errors"]
    assert error["extensions"]["class"] == "internal"
    assert error["extensions"]["detail"] == {"requestId": "find-me"}
    defects = [line for line in logged if line["log_level"] == "error"]
    assert [type(line["exc_info"]) for line in defects] == [ZeroDivisionError]


async def test_an_error_without_a_union_is_a_graphql_error_with_its_class(api: Api) -> None:
    answer = await api.graphql("{ tasks(first: 0) { nodes { id } } }")
    assert answer["errors"][0]["extensions"] == {
        "class": "invalid-request",
        "message": "first is from 1 to 1000, not 0",
        "detail": {"first": 0},
    }


@pytest.mark.parametrize("status", ["asleep", "DONE", ""])
async def test_an_unknown_status_is_refused_with_the_known(api: Api, status: str) -> None:
    answer = await api.graphql(
        "query($s: [String!]) { tasks(status: $s) { nodes { id } } }", s=[status]
    )
    assert "one of pending, running" in answer["errors"][0]["message"]


async def test_a_task_is_shown_as_it_is(api: Api) -> None:
    task_id = await start(api, "ann")
    await end_of(api, task_id)
    shown = await api.data(
        "query($id: ID!) { task(id: $id) { ... on Task { id name owner status cancelRequested"
        " message progress { current total unit } failure { class } createdAt startedAt endedAt"
        " items { agentId } transitions { from to by } } } }",
        user="ann",
        id=task_id,
    )
    task = shown["task"]
    assert (task["id"], task["owner"], task["status"]) == (task_id, "ann", "succeeded")
    assert task["progress"]["total"] == 4 * 10**9
    assert task["createdAt"].endswith("+00:00")
    assert [step["to"] for step in task["transitions"]] == ["pending", "running", "succeeded"]
    assert task["transitions"][0]["by"] == "user ann"


async def test_a_user_sees_only_their_own_tasks_and_a_superadmin_all(api: Api) -> None:
    mine, theirs = await start(api, "ann"), await start(api, "bob")
    listed = "{ tasks { nodes { id owner } } }"
    own = (await api.data(listed, user="ann"))["tasks"]["nodes"]
    assert own == [{"id": mine, "owner": "ann"}]
    everything = (await api.data(listed))["tasks"]["nodes"]
    assert {task["id"] for task in everything} == {mine, theirs}
    one = f"query($id: ID!) {{ task(id: $id) {{ __typename {FAILED} }} }}"
    refused = (await api.data(one, user="ann", id=theirs))["task"]
    assert (refused["__typename"], refused["detail"]["needs"]) == ("Forbidden", "owner")
    assert (await api.data(one, id=theirs))["task"]["__typename"] == "Task"
    assert (await api.data(one, id="nothing"))["task"]["__typename"] == "UnknownId"


async def test_a_task_is_cancelled_by_its_owner_and_not_by_others(api: Api) -> None:
    task_id = await start(api, "ann", for_ever)
    cancel = f"mutation($id: ID!) {{ cancelTask(id: $id) {{ __typename {FAILED} }} }}"
    assert (await api.data(cancel, user="bob", id=task_id))["cancelTask"]["class"] == "forbidden"
    assert not (await api.background.show(task_id)).cancel_requested
    assert (await api.data(cancel, user="ann", id=task_id))["cancelTask"]["__typename"] == "Task"
    await end_of(api, task_id)
    assert (await api.background.show(task_id)).status is TaskStatus.CANCELLED


async def test_pages_of_tasks_follow_one_another(api: Api) -> None:
    started = [await start(api, "ann") for _ in range(5)]
    listed = (
        "query($after: String) { tasks(first: 2, after: $after)"
        " { edges { cursor node { id } } nodes { id } pageInfo { hasNextPage endCursor } } }"
    )
    seen: list[str] = []
    after: str | None = None
    for more in (True, True, False):
        page = (await api.data(listed, after=after))["tasks"]
        assert [edge["node"] for edge in page["edges"]] == page["nodes"]
        assert page["pageInfo"]["hasNextPage"] is more
        seen += [node["id"] for node in page["nodes"]]
        after = page["pageInfo"]["endCursor"]
    assert seen == started[::-1]


@pytest.mark.parametrize("cursor", ["rubbish", "AA==", "YQBi", "/w=="])
@pytest.mark.parametrize("field", ["tasks", "sessions", "images"])
async def test_what_is_no_cursor_is_refused(api: Api, field: str, cursor: str) -> None:
    answer = await api.graphql(f'{{ {field}(after: "{cursor}") {{ nodes {{ __typename }} }} }}')
    assert [error["extensions"]["class"] for error in answer["errors"]] == ["invalid-request"]


async def test_images_are_found_by_a_part_of_the_reference_and_by_agent(api: Api) -> None:
    digest = "sha256:" + "a" * 64
    api.images.views = [
        ImageView(
            "h/app:v1",
            digest,
            5 * 10**9,
            [ImageOnAgent("one", "present", 6), ImageOnAgent("two", "pulling")],
        ),
        ImageView("h/tool:v2", None, 7, [ImageOnAgent("one", "present")]),
    ]
    asked = (
        "query($r: String, $a: ID) { images(reference: $r, agentId: $a)"
        " { nodes { reference rootDigest size agents { agentId status } } } }"
    )
    found = (await api.data(asked, user="ann", r="app"))["images"]["nodes"]
    assert found == [
        {
            "reference": "h/app:v1",
            "rootDigest": digest,
            "size": 5 * 10**9,
            "agents": [
                {"agentId": "one", "status": "present"},
                {"agentId": "two", "status": "pulling"},
            ],
        }
    ]
    there = (await api.data(asked, user="ann", a="two"))["images"]["nodes"]
    assert [image["reference"] for image in there] == ["h/app:v1"]


async def test_agents_are_cordoned_and_removed(api: Api) -> None:
    changed = (
        f'mutation {{ answer: %s(id: "one") {{ ... on Agent {{ status cordoned }} {FAILED} }} }}'
    )
    assert (await api.data(changed % "cordonAgent"))["answer"]["cordoned"] is True
    assert (await api.data(changed % "uncordonAgent"))["answer"]["cordoned"] is False
    assert (await api.data(changed % "removeAgent"))["answer"]["status"] == "RETIRED"


async def test_a_registry_password_is_never_answered(api: Api) -> None:
    added = await api.client.post(
        "/graphql",
        json={
            "query": 'mutation($p: String) { addRegistry(url: "http://h:5000", username: "al",'
            " password: $p) { ... on Registry { host url username } } }",
            "variables": {"p": "hunter2hunter2"},
        },
        headers=api.headers("root"),
    )
    assert added.json()["data"]["addRegistry"]["host"] == "h:5000"
    listed = await api.data("{ registries { host url username } }", user="ann")
    assert listed["registries"] == [{"host": "h:5000", "url": "http://h:5000", "username": "al"}]
    assert "hunter2" not in added.text
    removed = 'mutation { removeRegistry(host: "h:5000") { __typename ' + FAILED + " } }"
    assert (await api.data(removed))["removeRegistry"]["__typename"] == "Registry"
    assert (await api.data(removed))["removeRegistry"]["__typename"] == "UnknownRegistry"


async def test_a_users_life(api: Api) -> None:
    added = await api.data(
        f'mutation {{ addUser(name: "eve") {{ ... on User {{ name role }} {FAILED} }} }}'
    )
    assert added["addUser"] == {"name": "eve", "role": "user"}
    created = await api.data(
        'mutation { createToken(user: "eve", label: "x") { ... on TokenCreated { id token } } }'
    )
    headers = {"Authorization": f"Bearer {created['createToken']['token']}"}
    asked = {"query": "{ viewer { name } tokens { user label } }"}
    answer = await api.client.post("/graphql", json=asked, headers=headers)
    assert answer.json()["data"] == {
        "viewer": {"name": "eve"},
        "tokens": [{"user": "eve", "label": "x"}],
    }
    removed = await api.data('mutation { removeUser(name: "eve") { ... on User { name } } }')
    assert removed["removeUser"] == {"name": "eve"}
    assert (await api.client.post("/graphql", json=asked, headers=headers)).status_code == 401
    last = await api.data(f'mutation {{ removeUser(name: "root") {{ {FAILED} }} }}')
    assert last["removeUser"]["class"] == "conflict"


async def test_users_make_and_revoke_tokens_of_their_own_only(api: Api) -> None:
    create = (
        'mutation($whose: String!) { answer: createToken(user: $whose, label: "x")'
        " { ... on TokenCreated { id token } " + FAILED + " } }"
    )
    revoke = (
        "mutation($id: ID!) { answer: revokeToken(id: $id) { ... on Token { user } "
        + FAILED
        + " } }"
    )
    token_id = (await api.data(create, user="ann", whose="ann"))["answer"]["id"]
    for other in ("bob", "ghost"):
        refused = await api.data(create, user="ann", whose=other)
        assert refused["answer"]["class"] == "forbidden"
    assert (await api.data(revoke, user="bob", id=token_id))["answer"]["class"] == "forbidden"
    assert (await api.data(revoke, user="ann", id=token_id))["answer"] == {"user": "ann"}
    assert (await api.data(revoke, user="ann", id=token_id))["answer"]["class"] == "unknown-id"


async def test_a_join_token_is_shown_once(api: Api) -> None:
    created = await api.data(
        'mutation { createJoinToken(label: "rack 3") { ... on JoinTokenCreated { id token } } }'
    )
    assert created["createJoinToken"]["token"].startswith("whj_")
