from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.agent.engine import entries
from wharfinger.agent.engine.port import EngineDescription, LocalImage
from wharfinger.domain.platforms import Platform

IMAGE_ID = "sha256:" + "5c" * 32
DIGEST = "sha256:" + "ab" * 32
NAME = "127.0.0.1:5100/inv/a"


def test_a_listed_image_is_read_without_a_platform() -> None:
    listed = {
        "Id": IMAGE_ID,
        "RepoTags": [f"{NAME}:v1"],
        "RepoDigests": [f"{NAME}@{DIGEST}"],
        "Size": 3030846,
        "Labels": None,
    }
    assert entries.read_images([listed]) == [
        LocalImage(IMAGE_ID, (f"{NAME}:v1",), (f"{NAME}@{DIGEST}",), 3030846)
    ]


def test_odd_entries_of_a_listing_are_tolerated() -> None:
    listing = [{"Id": IMAGE_ID, "RepoTags": None, "RepoDigests": None, "Size": None}]
    assert entries.read_images(listing) == [LocalImage(IMAGE_ID, (), (), 0)]
    assert entries.read_images([]) == []


@pytest.mark.parametrize("says", [None, {}, "text", [None], [{"Id": None}], [{"Id": "a"}, {}]])
def test_a_listing_that_says_nothing_is_no_empty_one(says: Any) -> None:
    assert entries.read_images(says) is None


@pytest.mark.parametrize(
    ("inspected", "platform"),
    [
        ({"Os": "linux", "Architecture": "amd64"}, Platform("linux", "amd64")),
        ({"Os": "linux", "Architecture": "x86_64"}, Platform("linux", "amd64")),
        ({"Os": "linux", "Architecture": "arm", "Variant": "v6"}, Platform("linux", "arm", "v6")),
        ({"Os": "linux", "Architecture": ""}, Platform("linux", "")),
        ({}, Platform("", "")),
    ],
)
def test_an_inspected_image_has_its_platform(inspected: Any, platform: Platform) -> None:
    image = entries.read_image({"Id": IMAGE_ID, **inspected})
    assert image is not None
    assert image.platform == platform


DOCKER_20 = {"Version": "20.10.24", "Os": "linux", "Arch": "amd64", "Components": [{"Name": "E"}]}
DOCKER_28 = {**DOCKER_20, "Version": "28.5.2"}
PODMAN = {**DOCKER_20, "Version": "4.3.1", "Components": [{"Name": "Podman Engine"}]}
CONTAINERD = {
    "Driver": "overlayfs",
    "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
    "OSType": "linux",
    "Architecture": "x86_64",
}
AMD64 = Platform("linux", "amd64")


@pytest.mark.parametrize(
    ("version", "info", "description"),
    [
        (
            DOCKER_20,
            {
                "Driver": "overlay2",
                "DriverStatus": [["Backing Filesystem", "extfs"]],
                "NCPU": 2,
                "MemTotal": 25276063744,
            },
            EngineDescription("docker", "20.10.24", "classic", AMD64, 60.0, 2, 25276063744),
        ),
        (
            DOCKER_28,
            CONTAINERD,
            EngineDescription("docker", "28.5.2", "containerd", AMD64, 120.0),
        ),
        (
            PODMAN,
            {"Driver": "overlay", "DriverStatus": None},
            EngineDescription("podman", "4.3.1", "overlay", AMD64, 300.0),
        ),
    ],
)
def test_engines_describe_themselves(
    version: Any, info: Any, description: EngineDescription
) -> None:
    assert entries.read_description(version, info) == description


def test_the_kernels_word_tells_the_variant() -> None:
    version, info = {"Os": "linux", "Arch": "arm"}, {"OSType": "linux", "Architecture": "armv7l"}
    assert entries.read_description(version, info).platform == Platform("linux", "arm", "v7")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Id", "RepoTags", "Names", "Os", "Components", "DriverStatus"]), inner
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(_json)
def test_no_answer_raises(answer: Any) -> None:
    entries.read_images(answer)
    entries.read_image(answer)
    entries.read_description(answer, answer)
