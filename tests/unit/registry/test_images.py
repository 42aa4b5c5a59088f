"""What a reference resolved to."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.platforms import Platform
from wharfinger.domain.progress import Layer
from wharfinger.domain.references import Reference
from wharfinger.registry.images import PlatformImage, ResolvedImage

REFERENCE = Reference.parse("h:1/app:v1")
HOSTS = {
    "amd64": Platform.parse("linux", "x86_64"),
    "arm64": Platform.parse("linux", "aarch64"),
    "v7": Platform.parse("linux", "armv7l"),
    "v6": Platform.parse("linux", "arm", "v6"),
}


def resolved(*platforms: tuple[str, str, str]) -> ResolvedImage:
    images = tuple(
        PlatformImage(Platform.parse(*each), f"sha256:{number:064x}", "sha256:" + "c" * 64, ())
        for number, each in enumerate(platforms)
    )
    return ResolvedImage(REFERENCE, "sha256:" + "0" * 64, "index", images)


@pytest.mark.parametrize(
    ("host", "offered", "taken"),
    [
        ("amd64", [("linux", "arm64", ""), ("linux", "amd64", "")], 1),
        ("amd64", [("linux", "amd64", "v3"), ("linux", "amd64", "")], 1),
        ("amd64", [("windows", "amd64", ""), ("linux", "x86_64", "")], 1),
        ("amd64", [("windows", "amd64", "")], None),
        ("amd64", [("linux", "", "")], 0),
        ("arm64", [("linux", "arm64", "v8")], 0),
        ("arm64", [("linux", "arm64", "")], 0),
        ("arm64", [("linux", "arm", "v7")], None),
        ("v7", [("linux", "arm", "v6"), ("linux", "arm", "v7"), ("linux", "arm64", "v8")], 1),
        ("v7", [("linux", "arm", "v6"), ("linux", "arm64", "v8")], None),
        ("v6", [("linux", "arm", "v7"), ("linux", "arm", "v6")], 1),
        ("v6", [("linux", "arm", "v7")], None),
    ],
)
def test_a_host_takes_its_own_platform_before_what_it_runs_as_well(
    host: str, offered: list[tuple[str, str, str]], taken: int | None
) -> None:
    image = resolved(*offered)

    chosen = image.for_platform(HOSTS[host])

    assert chosen == (None if taken is None else image.platforms[taken])


def test_available_platforms_are_listed_once_each_without_unstated_ones() -> None:
    image = resolved(("linux", "arm64", "v8"), ("linux", "arm64", ""), ("", "", ""))

    assert [str(each) for each in image.available] == ["linux/arm64"]


def test_a_blob_listed_twice_is_fetched_and_counted_once() -> None:
    layer = Layer("sha256:" + "a" * 64, 10)

    assert PlatformImage(HOSTS["amd64"], "m", "c", (layer, layer)).size == 10


words = st.text(max_size=5)
layers = st.builds(Layer, words, st.integers(0, 2**62))
platforms = st.builds(Platform, words, words, words)
platform_images = st.builds(
    PlatformImage, platforms, words, words, st.lists(layers, max_size=3).map(tuple)
)


@given(
    st.builds(
        ResolvedImage,
        st.just(REFERENCE),
        words,
        words,
        st.lists(platform_images, max_size=3).map(tuple),
        st.lists(platforms, max_size=3).map(tuple),
    )
)
def test_it_survives_a_tasks_arguments(image: ResolvedImage) -> None:
    assert ResolvedImage.from_json(json.loads(json.dumps(image.to_json()))) == image
