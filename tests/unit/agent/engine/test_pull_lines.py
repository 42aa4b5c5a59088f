from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.agent.engine.port import LayerEvent, LayerStep
from wharfinger.agent.engine.pull_lines import StreamFailure, read_line

LAYER = "cacd41610185"

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
_words = st.sampled_from(
    ["Downloading", "Extracting", "Waiting", "Pull complete", "Retrying in 1 second"]
)
_like_lines = st.fixed_dictionaries(
    {},
    optional={
        "status": _words | _json,
        "id": st.just(LAYER) | _json,
        "progressDetail": st.fixed_dictionaries(
            {}, optional={"current": _json, "total": _json, "units": _json}
        )
        | _json,
        "error": _json,
        "errorDetail": st.dictionaries(st.just("message"), _json) | _json,
    },
)


def _progress(status: str, **detail: Any) -> dict[str, Any]:
    return {"status": status, "progressDetail": detail, "id": LAYER}


@pytest.mark.parametrize(
    ("line", "event"),
    [
        # Docker 20.10, classic store
        (_progress("Pulling fs layer"), LayerEvent(LAYER, LayerStep.DOWNLOADING, 0)),
        (_progress("Waiting"), LayerEvent(LAYER, LayerStep.WAITING)),
        (
            _progress("Downloading", current=12998656, total=31469948),
            LayerEvent(LAYER, LayerStep.DOWNLOADING, 12998656),
        ),
        # after a refetch there is no total
        (
            _progress("Downloading", current=544768),
            LayerEvent(LAYER, LayerStep.DOWNLOADING, 544768),
        ),
        (_progress("Verifying Checksum"), LayerEvent(LAYER, LayerStep.DOWNLOADED)),
        (_progress("Download complete"), LayerEvent(LAYER, LayerStep.DOWNLOADED)),
        (
            _progress("Extracting", current=327680, total=31469948),
            LayerEvent(LAYER, LayerStep.EXTRACTING, 327680),
        ),
        (_progress("Pull complete"), LayerEvent(LAYER, LayerStep.DONE)),
        (_progress("Already exists"), LayerEvent(LAYER, LayerStep.DONE)),
        (_progress("Retrying in 5 seconds"), LayerEvent(LAYER, LayerStep.RETRYING)),
        (_progress("Retrying in 1 second"), LayerEvent(LAYER, LayerStep.RETRYING)),
        ({"status": "Pulling from lab/a", "id": "v1"}, None),
        ({"status": "Digest: sha256:e6ce5817b24ea0e03daf78bc622a25bc"}, None),
        ({"status": "Status: Downloaded newer image for 127.0.0.1:5100/lab/a:v1"}, None),
        ({"status": "⚠️ Failed to pull manifest by the resolved digest.", "id": "WARNING"}, None),
        # Docker 28, containerd store
        (
            _progress("Download complete", hidecounts=True),
            LayerEvent(LAYER, LayerStep.DOWNLOADED),
        ),
        # extraction is told in seconds
        (
            {**_progress("Extracting", current=1, units="s"), "progress": "1 s"},
            LayerEvent(LAYER, LayerStep.EXTRACTING, None),
        ),
        ({"status": "Pulling from lab/a", "id": f"127.0.0.1:5600/a@sha256:{LAYER}"}, None),
        # anything else
        (_progress("Downloading", current=-5), LayerEvent(LAYER, LayerStep.DOWNLOADING, 0)),
        (_progress("Downloading", current=True), LayerEvent(LAYER, LayerStep.DOWNLOADING, 0)),
        (_progress("Something new"), None),
        ({"id": LAYER}, None),
        (None, None),
        ([], None),
    ],
)
def test_every_dialects_lines_are_read(line: Any, event: LayerEvent | None) -> None:
    assert read_line(line) == event


def test_a_full_digest_names_the_same_layer() -> None:
    line = {"status": "Pull complete", "id": f"sha256:{LAYER}{'0' * 52}"}
    assert read_line(line) == LayerEvent(LAYER, LayerStep.DONE)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"errorDetail": {"message": "unknown blob"}, "error": "unknown blob"}, "unknown blob"),
        ({"error": "unexpected EOF"}, "unexpected EOF"),
        ({"errorDetail": {"code": 1}}, "the engine gave no reason"),
        ({"error": None}, "the engine gave no reason"),
    ],
)
def test_failures_carry_the_engines_text(line: Any, text: str) -> None:
    assert read_line(line) == StreamFailure(text)


@settings(deadline=None)
@given(_json | _like_lines)
def test_no_line_raises_and_no_number_is_negative(line: Any) -> None:
    said = read_line(line)
    if isinstance(said, LayerEvent):
        assert said.current is None or said.current >= 0
