import pytest

from wharfinger.domain.platforms import Platform

AMD64 = Platform.parse("linux", "amd64")
ARM64 = Platform.parse("linux", "aarch64")
V7 = Platform.parse("linux", "armv7l")
V6 = Platform.parse("linux", "arm", "v6")


@pytest.mark.parametrize("spelling", ["amd64", "AMD64", "x86_64", " x86-64 "])
def test_every_spelling_of_amd64_is_amd64(spelling: str) -> None:
    assert Platform.parse("Linux", spelling) == AMD64


@pytest.mark.parametrize("variant", ["", "v8", "8", "V8"])
def test_arm64_is_v8_stated_or_not(variant: str) -> None:
    assert Platform.parse("linux", "arm64", variant) == ARM64


@pytest.mark.parametrize(
    ("host", "image", "runs"),
    [
        (AMD64, AMD64, True),
        (AMD64, ARM64, False),
        (AMD64, Platform.parse("windows", "amd64"), False),
        (AMD64, Platform.parse("linux", "amd64", "v3"), True),
        (AMD64, Platform.parse("linux", ""), True),
        (AMD64, Platform.parse("", ""), True),
        (ARM64, Platform.parse("linux", "arm64", "v8"), True),
        (ARM64, Platform.parse("linux", "arm64"), True),
        (ARM64, V7, False),
        (V7, V7, True),
        (V7, Platform.parse("linux", "arm"), True),
        (V7, V6, False),
        (V7, ARM64, False),
        (V6, V7, False),
        (V6, V6, True),
    ],
    ids=str,
)
def test_a_host_runs_what_it_can(host: Platform, image: Platform, *, runs: bool) -> None:
    assert host.runs(image) is runs


def test_a_platform_reads_as_people_write_it() -> None:
    assert [str(p) for p in (AMD64, V7, Platform("", ""))] == ["linux/amd64", "linux/arm/v7", "?/?"]
