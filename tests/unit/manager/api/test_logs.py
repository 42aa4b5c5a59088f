import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from wharfinger.manager.api import logs


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    stream = io.StringIO()
    logs.configure(json=True, level="debug", stream=stream)
    yield stream
    structlog.reset_defaults()
    root.handlers = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object(written: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger().info("it happened", agent="one", count=3)
    (line,) = lines(written)
    assert line.pop("timestamp")
    assert line == {
        "event": "it happened",
        "level": "info",
        "request_id": "r1",
        "agent": "one",
        "count": 3,
    }


def test_libraries_log_the_same_way(written: io.StringIO) -> None:
    logging.getLogger("sqlalchemy.pool").warning("pool of %s is full", "x")
    (line,) = lines(written)
    assert line["event"] == "pool of x is full"
    assert line["level"] == "warning"


SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "facts",
    [
        {"password": SECRET},
        {"registry_password": SECRET},
        {"call_token": SECRET},
        {"headers": {"Authorization": f"Basic {SECRET}"}},
        {"said": f"GET /x Authorization: Bearer {SECRET}"},
        {"said": [f"Basic {SECRET}"]},
        {"url": f"https://alice:{SECRET}@registry.example:5000/v2/"},
        {"said": f"the token whu_{SECRET} is not known"},
        {"nested": [{"credentials": {"password": SECRET}}]},
    ],
)
def test_secrets_are_struck_out(written: io.StringIO, facts: dict[str, object]) -> None:
    structlog.get_logger().info("said", **facts)
    assert SECRET not in written.getvalue()
    assert "***" in written.getvalue()


def test_secrets_are_struck_out_of_tracebacks_and_of_what_libraries_log(
    written: io.StringIO,
) -> None:
    logging.getLogger("library").error("asked %s", f"http://bob:{SECRET}@h/")
    structlog.get_logger().error("failed", exc_info=ValueError(f"Bearer {SECRET}"))
    assert "ValueError" in written.getvalue()
    assert SECRET not in written.getvalue()


def test_people_get_lines_of_text(written: io.StringIO) -> None:
    logs.configure(json=False, stream=written)
    structlog.get_logger().error("failed", agent="one", exc_info=ValueError(f"Bearer {SECRET}"))
    assert "[error    ] failed" in written.getvalue()
    assert "agent=one" in written.getvalue()
    assert "ValueError: Bearer ***" in written.getvalue()
    assert SECRET not in written.getvalue()


def test_what_is_no_secret_stays(written: io.StringIO) -> None:
    structlog.get_logger().info("said", token_id="7", reference="h:5000/a@sha256:ab", password="")
    (line,) = lines(written)
    assert line["token_id"] == "7"
    assert line["reference"] == "h:5000/a@sha256:ab"
    assert line["password"] == ""
