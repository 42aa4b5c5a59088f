"""What agents send over HTTP."""

import json
from typing import Any

from rig.api import AGENT_CREDENTIAL, Api

from wharfinger.contracts.ingest import REGISTER, REPORT, Acknowledgement, Registered
from wharfinger.manager.api.ingest import LARGEST_BODY

AGENT = {"Authorization": f"Bearer {AGENT_CREDENTIAL}"}

REGISTRATION: dict[str, Any] = {
    "agentId": "one",
    "scalingGroup": "default",
    "incarnation": "i1",
    "address": "http://127.0.0.1:9",
    "callToken": "the-call-token",
    "version": "0.1.0",
    "os": "linux",
    "architecture": "amd64",
}
REPORTED: dict[str, Any] = {"incarnation": "i1", "begun": 1}


async def test_an_agent_registers_and_reports(api: Api) -> None:
    answer = await api.client.post(REGISTER, json=REGISTRATION, headers=AGENT)
    assert answer.status_code == 200
    assert Registered.model_validate_json(answer.content).credential == AGENT_CREDENTIAL
    assert api.fleet.registrations[0].call_token == "the-call-token"
    answer = await api.client.post(REPORT, json=REPORTED, headers=AGENT)
    assert Acknowledgement.model_validate_json(answer.content).report_seconds == 1.0
    assert api.fleet.reports[0].begun == 1


async def test_what_a_newer_agent_adds_is_ignored(api: Api) -> None:
    body = {**REPORTED, "moonPhase": "full"}
    assert (await api.client.post(REPORT, json=body, headers=AGENT)).status_code == 200


async def test_a_wrong_credential_is_401(api: Api) -> None:
    for path, body in ((REGISTER, REGISTRATION), (REPORT, REPORTED)):
        headers = {"Authorization": "Bearer wrong"}
        answer = await api.client.post(path, json=body, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["class"] == "forbidden"


async def test_a_users_token_is_no_agents(api: Api) -> None:
    answer = await api.client.post(REPORT, json=REPORTED, headers=api.headers("root"))
    assert answer.status_code == 401


async def test_what_is_malformed_is_422_and_says_where(api: Api) -> None:
    bodies: dict[str, bytes] = {
        "": b"",
        "not json": b"{",
        "null": b"null",
        "list": b"[]",
        "latin-1": '{"incarnation": "ü"}'.encode("latin-1"),
        "utf-16": json.dumps(REPORTED).encode("utf-16"),
        "nested": b"[" * 100_000,
        "half-surrogate": b'{"incarnation": "\\ud800", "begun": 1}',
        "missing": b'{"incarnation": "i1"}',
        "wrong type": b'{"incarnation": "i1", "begun": "often"}',
        "unknown event": b'{"incarnation": "i1", "begun": 1, "events": [{"type": "Odd"}]}',
    }
    for name, body in bodies.items():
        answer = await api.client.post(REPORT, content=body, headers=AGENT)
        assert answer.status_code == 422, name
        error = answer.json()["error"]
        assert error["message"] == "This is not a Report"
        assert error["detail"]["problems"][0]["problem"]
    assert error["detail"]["problems"][0]["at"] == "events.0"
    assert api.fleet.reports == []


async def test_a_nul_in_a_raw_text_does_not_keep_a_report_from_being_kept(api: Api) -> None:
    body = {**REPORTED, "incarnation": "a\0b"}
    assert (await api.client.post(REPORT, json=body, headers=AGENT)).status_code == 200
    assert api.fleet.reports[0].incarnation == "a\N{REPLACEMENT CHARACTER}b"


async def test_a_refusal_never_repeats_what_was_sent(api: Api) -> None:
    body = {**REGISTRATION, "callToken": {"secret": "hunter2hunter2"}, "os": 7}
    answer = await api.client.post(REGISTER, json=body, headers=AGENT)
    assert answer.status_code == 422
    assert "hunter2" not in answer.text


async def test_a_report_is_bounded_and_a_full_listing_fits(api: Api) -> None:
    image = {"imageId": "sha256:" + "a" * 64, "tags": ["h/app:v1"], "size": 1}
    listing = {"version": "v", "images": [image] * 10_000}
    body = {**REPORTED, "inventoryVersion": "v", "inventory": listing}
    assert (await api.client.post(REPORT, json=body, headers=AGENT)).status_code == 200
    too_large = b" " * (LARGEST_BODY + 1)
    answer = await api.client.post(REPORT, content=too_large, headers=AGENT)
    assert answer.status_code == 413
    assert answer.json()["error"]["detail"] == {"limit": LARGEST_BODY}
