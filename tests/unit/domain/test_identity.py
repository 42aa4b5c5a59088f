from wharfinger.domain.failures import FailureClass
from wharfinger.domain.identity import shortcoming
from wharfinger.domain.platforms import Platform
from wharfinger.domain.references import Reference

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
AMD64 = Platform.parse("linux", "amd64")
TAGGED = Reference.parse("localhost:5000/a:v1")


def lacking(
    reference: Reference = TAGGED,
    *,
    digests: tuple[str, ...] = (f"localhost:5000/a@{DIGEST}",),
    tags: tuple[str, ...] = ("localhost:5000/a:v1",),
    architecture: str = "amd64",
    tag_matters: bool = True,
) -> FailureClass | None:
    failure = shortcoming(
        reference,
        DIGEST,
        AMD64,
        tags=tags,
        digests=digests,
        image=Platform.parse("linux", architecture),
        tag_matters=tag_matters,
    )
    return failure.failure_class if failure else None


def test_digest_tag_and_platform_together_are_presence() -> None:
    assert lacking() is None


def test_another_digest_is_not_the_image() -> None:
    assert lacking(digests=(f"localhost:5000/a@{OTHER}",)) is FailureClass.CORRUPT
    assert lacking(digests=()) is FailureClass.CORRUPT


def test_the_digest_may_be_known_under_another_repository() -> None:
    assert lacking(digests=(f"localhost:5000/b@{OTHER}", f"localhost:5000/c@{DIGEST}")) is None


def test_a_foreign_architecture_is_not_present() -> None:
    assert lacking(architecture="arm64") is FailureClass.WRONG_PLATFORM


def test_an_architecture_not_stated_is_not_held_against_an_image() -> None:
    assert lacking(architecture="") is None


def test_a_preload_wants_the_tag_and_a_session_does_not() -> None:
    assert lacking(tags=()) is FailureClass.ENGINE_ERROR
    assert lacking(tags=(), tag_matters=False) is None


def test_a_digest_reference_wants_no_tag() -> None:
    assert lacking(Reference.parse(f"localhost:5000/a@{DIGEST}"), tags=()) is None
