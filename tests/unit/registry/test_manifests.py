"""Reading manifests and indexes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.domain.failures import FailureError
from wharfinger.domain.platforms import Platform
from wharfinger.domain.progress import Layer
from wharfinger.registry.manifests import (
    DOCKER_LIST,
    LABELS_LIMIT,
    OCI_INDEX,
    OCI_MANIFEST,
    Descriptor,
    ImageIndex,
    ImageManifest,
    parse_config,
    parse_manifest,
)

A, B, C = ("sha256:" + digit * 64 for digit in "abc")


def image(**changes: Any) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "config": {"digest": A, "size": 3},
        "layers": [{"digest": B, "size": 5}],
    } | changes


def entry(digest: str = B, **changes: Any) -> dict[str, Any]:
    return {"mediaType": OCI_MANIFEST, "digest": digest, "size": 7} | changes


def index(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"schemaVersion": 2, "manifests": list(entries)}


def read(document: Any, content_type: str = "") -> ImageManifest | ImageIndex:
    return parse_manifest(json.dumps(document).encode(), content_type, asked="H/app:v1")


def refusal(document: Any) -> FailureError:
    with pytest.raises(FailureError) as caught:
        read(document)
    assert "H/app:v1" in caught.value.message
    return caught.value


def platform(os: str, architecture: str, **more: str) -> dict[str, Any]:
    return {"platform": {"os": os, "architecture": architecture} | more}


def test_a_document_is_what_its_content_is() -> None:
    assert read(image(), OCI_INDEX) == ImageManifest(OCI_INDEX, Descriptor(A, 3), (Layer(B, 5),))
    assert isinstance(read(index(entry()), "text/plain"), ImageIndex)
    assert read(index(entry())).media_type == OCI_INDEX
    assert read(index(entry()) | {"mediaType": DOCKER_LIST}).media_type == DOCKER_LIST
    assert read(image()).media_type == OCI_MANIFEST


def test_layers_to_be_fetched_from_elsewhere_are_not_counted() -> None:
    foreign = {"digest": C, "size": 252_691_002, "urls": ["http://elsewhere/layer"]}
    kept = {"digest": B, "size": 5, "urls": []}

    document = read(image(layers=[foreign, kept]))

    assert isinstance(document, ImageManifest)
    assert document.layers == (Layer(B, 5),)


def test_attestations_and_artifacts_of_an_index_are_left_out() -> None:
    document = read(
        index(
            entry(A, **platform("linux", "amd64")),
            entry(B, **platform("unknown", "unknown")),
            entry(C, annotations={"vnd.docker.reference.type": "attestation-manifest"}),
            entry(C, mediaType="application/vnd.example.sbom+json"),
        )
    )

    assert isinstance(document, ImageIndex)
    assert document.entries == (Descriptor(A, 7, Platform("linux", "amd64")),)


def test_platforms_are_normalised_and_an_empty_one_is_not_stated() -> None:
    document = read(
        index(
            entry(A, **platform("Linux", "X86_64")),
            entry(B, **platform("linux", "arm64", variant="v8")),
            entry(C, **platform("", "")),
            entry(C, platform=None),
            entry(C, platform={"os": 1, "architecture": []}),
        )
    )

    assert isinstance(document, ImageIndex)
    assert [each.platform for each in document.entries] == [
        Platform("linux", "amd64"),
        Platform("linux", "arm64"),
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (image(config={"mediaType": "application/vnd.cncf.helm.config.v1+json"}), "helm"),
        (image(config={"mediaType": "application/vnd.oci.empty.v1+json"}), "empty"),
        ({"schemaVersion": 1, "fsLayers": []}, "schema 1"),
        ({}, "neither layers nor manifests"),
        (image() | index(entry()), "at once"),
        (index(), "no image"),
        (index(entry(**platform("unknown", "unknown"))), "no image"),
    ],
)
def test_what_is_something_else_is_not_an_image(document: dict[str, Any], says: str) -> None:
    refused = refusal(document)

    assert refused.code == "not-an-image"
    assert says in refused.message


@pytest.mark.parametrize(
    "document",
    [
        image(layers=None),
        image(layers=["x"]),
        image(layers=[{"digest": "sha256:xyz", "size": 1}]),
        image(layers=[{"digest": B}]),
        image(layers=[{"digest": B, "size": -1}]),
        image(layers=[{"digest": B, "size": True}]),
        image(layers=[{"digest": B, "size": 2**70}]),
        image(layers=[{"digest": "../../x", "size": 1}]),
        image(config=None),
        index(entry("sha256:../..")),
        {"manifests": {}},
        {"manifests": [1]},
    ],
)
def test_what_is_malformed_is_corrupt(document: dict[str, Any]) -> None:
    assert refusal(document).code == "corrupt"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(A),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["manifests", "layers", "config", "digest", "size", "platform", "mediaType", "os"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_document_is_read_or_refused_with_a_class(document: Any) -> None:
    try:
        read(document)
    except FailureError as refused:
        assert refused.code in {"not-an-image", "corrupt", "registry-error"}  # noqa: PT017


@pytest.mark.parametrize("nonsense", [[], {}, 7, None, [A]])
def test_a_media_type_that_is_no_word_counts_as_not_stated(nonsense: Any) -> None:
    odd = image(mediaType=nonsense, config={"digest": A, "size": 3, "mediaType": nonsense})
    assert read(odd) == read(image())
    assert read(index(entry(mediaType=nonsense))) == read(index(entry()))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"os": "linux", "architecture": "AMD64"}, Platform("linux", "amd64")),
        ({"os": "linux", "architecture": "x86_64"}, Platform("linux", "amd64")),
        ({"os": "linux", "architecture": ""}, Platform("linux", "")),
        ({"os": "linux", "architecture": "arm", "variant": "v6"}, Platform("linux", "arm", "v6")),
        ({"created": "rubbish"}, Platform("", "")),
        ({"os": None, "architecture": 5}, Platform("", "")),
    ],
)
def test_a_config_states_its_platform_or_nothing(
    config: dict[str, Any], expected: Platform
) -> None:
    assert parse_config(json.dumps(config).encode(), asked="H/app:v1").platform == expected


def test_a_config_that_is_no_object_is_corrupt() -> None:
    with pytest.raises(FailureError) as caught:
        parse_config(b"[]", asked="H/app:v1")

    assert caught.value.code == "corrupt"


@pytest.mark.parametrize(
    ("config", "diff_ids", "labels"),
    [
        ({"rootfs": {"diff_ids": [A, B]}, "config": {"Labels": {"b": "2", "a": "1"}}}, 2, "ab"),
        ({"rootfs": {"diff_ids": [A, "sha256:short"]}, "config": {"Labels": None}}, 0, ""),
        ({"rootfs": {"diff_ids": [A, 7]}, "config": {"Labels": {"a": 1, "b": "2"}}}, 0, "b"),
        ({"rootfs": [], "config": []}, 0, ""),
        ({"rootfs": {"diff_ids": A}, "config": {"Labels": ["a"]}}, 0, ""),
        ({"config": {"Labels": {"a": "1", "b": "x" * LABELS_LIMIT, "c": "3"}}}, 0, "a"),
        ({}, 0, ""),
    ],
)
def test_what_is_odd_in_a_config_is_left_out(config: Any, diff_ids: int, labels: str) -> None:
    read_config = parse_config(json.dumps(config).encode(), asked="H/app:v1")

    assert read_config.diff_ids == (A, B)[:diff_ids]
    assert "".join(name for name, _ in read_config.labels) == labels
