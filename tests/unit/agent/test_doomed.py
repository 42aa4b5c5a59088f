import pytest

from wharfinger.agent.doomed import doomed
from wharfinger.agent.engine.port import LocalImage
from wharfinger.domain.references import Reference

R = "example.org/team/app"
OTHER = "example.org/team/app2"
D1, D2 = "sha256:" + "1" * 64, "sha256:" + "2" * 64
V1, V2 = f"{R}:v1", f"{R}:v2"


@pytest.mark.parametrize(
    ("reference", "tags", "digests", "expected"),
    [
        (V1, (V1,), (f"{R}@{D1}",), (V1, f"{R}@{D1}")),
        (V1, (V1, V2), (f"{R}@{D1}",), (V1,)),
        (V1, (V1, f"{OTHER}:v1"), (f"{R}@{D1}", f"{OTHER}@{D1}"), (V1, f"{R}@{D1}")),
        (V1, (V2,), (f"{R}@{D1}",), ()),
        (f"{R}@{D1}", (V1, V2), (f"{R}@{D1}", f"{R}@{D2}"), (V1, V2, f"{R}@{D1}", f"{R}@{D2}")),
        (f"{R}@{D1}", (f"{OTHER}:v1",), (f"{R}@{D1}",), (f"{R}@{D1}",)),
        (f"{V1}@{D1}", (V1, V2), (f"{R}@{D1}",), (V1,)),
        (f"{V1}@{D1}", (V1,), (f"{R}@{D1}",), (V1, f"{R}@{D1}")),
        (f"{V1}@{D1}", (), (f"{R}@{D1}",), (f"{R}@{D1}",)),
        (f"{V1}@{D1}", (V2,), (f"{R}@{D1}",), ()),
    ],
)
def test_only_what_the_reference_stands_for_goes(
    reference: str, tags: tuple[str, ...], digests: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    image = LocalImage("sha256:" + "f" * 64, tags, digests, 1)
    assert doomed(Reference.parse(reference), image) == expected
