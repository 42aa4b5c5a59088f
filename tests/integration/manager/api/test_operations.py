"""Health, readiness, metrics and request ids."""

from dataclasses import dataclass
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from rig.api import Api

from wharfinger.manager.api.services import Services


@dataclass
class FakeLoop:
    name: str
    running: bool


async def ready(api: Api) -> tuple[int, list[str]]:
    answer = await api.client.get("/readyz")
    return answer.status_code, answer.json()["problems"]


async def test_it_is_alive_and_ready(api: Api) -> None:
    assert (await api.client.get("/healthz")).json() == {"alive": True}
    assert await ready(api) == (200, [])


async def test_it_is_not_ready_without_its_database_but_alive(api: Api) -> None:
    await api.storage.close()
    status, problems = await ready(api)
    assert status == 503
    assert problems[0].startswith("the database does not answer")
    assert (await api.client.get("/healthz")).status_code == 200
    answer = await api.client.post("/graphql", json={}, headers=api.headers("root"))
    assert answer.status_code == 503


async def test_it_is_not_ready_while_a_loop_stands_still(api: Api, monkeypatch: Any) -> None:
    loops = (FakeLoop("fleet.silence", running=True), FakeLoop("pulls", running=False))
    monkeypatch.setattr(Services, "loops", property(lambda _: loops), raising=False)
    assert await ready(api) == (503, ["the loop pulls does not run"])


async def test_it_is_not_ready_when_about_to_stop(api: Api) -> None:
    api.services.drain.set()
    assert await ready(api) == (503, ["it is about to stop"])


async def test_a_request_keeps_its_callers_id_or_gets_one(api: Api, logged: list[Any]) -> None:
    answer = await api.client.get("/healthz", headers={"X-Request-Id": "abc-123"})
    assert answer.headers["x-request-id"] == "abc-123"
    for odd in ("", "a b", "x" * 200, 'a"b'):
        answer = await api.client.get("/healthz", headers={"X-Request-Id": odd})
        assert answer.headers["x-request-id"] not in {odd, ""}
    for path in ("/nothing", "/metrics", "/background-tasks"):
        assert (await api.client.get(path)).headers["x-request-id"]
    requests = [line for line in logged if line["event"] == "request"]
    assert requests[0]["status"] == 200
    for line in requests:
        assert line["log_level"] == ("debug" if line["status"] < 400 else "info")
    assert all("token" not in str(line).lower() for line in requests)


class Answer(Collector):
    """Somebody else's numbers."""

    def collect(self) -> list[GaugeMetricFamily]:
        return [GaugeMetricFamily("wharfinger_answer", "It.", value=42)]


async def test_metrics_count_requests_by_route_and_status(api: Api) -> None:
    api.metrics.add_collector(Answer())
    for path in ("/healthz", "/healthz", "/nothing/1", "/nothing/2", "/background-tasks"):
        await api.client.get(path)
    await api.client.request("BREW", "/healthz")
    text = (await api.client.get("/metrics", headers=api.headers("ann"))).text
    for line in (
        'wharfinger_http_requests_total{method="GET",route="/healthz",status="200"} 2.0',
        'wharfinger_http_requests_total{method="GET",route="(unknown)",status="404"} 2.0',
        'wharfinger_http_requests_total{method="GET",route="/background-tasks",status="401"} 1.0',
        'wharfinger_http_requests_total{method="other",route="/healthz",status="405"} 1.0',
        'wharfinger_http_request_seconds_count{method="GET",route="/healthz"} 2.0',
        "wharfinger_open_streams 0.0",
        "wharfinger_answer 42.0",
    ):
        assert line in text
