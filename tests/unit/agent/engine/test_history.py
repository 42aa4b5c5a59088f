import pytest

from wharfinger.agent.engine.history import read_layer_sizes


def step(size: object, created_by: str = "RUN something") -> dict[str, object]:
    return {"Size": size, "CreatedBy": created_by}


BASE = step(900, "/bin/sh -c #(nop) ADD file:1f in / ")
COPY = step(40, "COPY app /app # buildkit")
CMD = step(0, '/bin/sh -c #(nop)  CMD ["sh"]')
ENV = step(0, "ENV A=b")
WORKDIR = step(0, "WORKDIR /app")


@pytest.mark.parametrize(
    ("built", "layers", "expected"),
    [
        ([BASE, COPY], 2, (900, 40)),
        ([BASE, WORKDIR], 2, (900, 0)),
        ([BASE, CMD, COPY, ENV], 2, (900, 40)),
        ([BASE, CMD, WORKDIR, ENV, COPY], 3, (900, 0, 40)),
        ([BASE, step(0, "RUN true"), CMD, COPY], 3, (900, 0, 40)),
    ],
    ids=["each", "each-but-empty", "with-bytes", "workdir", "run"],
)
def test_the_steps_that_made_a_layer_are_found(
    built: list[dict[str, object]], layers: int, expected: tuple[int, ...]
) -> None:
    assert read_layer_sizes(built[::-1], layers) == expected


@pytest.mark.parametrize(
    ("listing", "layers"),
    [
        (None, 1),
        ([], 1),
        ([COPY, BASE], 3),
        ([COPY, WORKDIR, step(0, "RUN true"), BASE], 3),
        ([step("large"), None], 1),
    ],
    ids=["nothing", "empty", "too-few", "ambiguous", "odd"],
)
def test_what_cannot_be_matched_is_not_guessed(listing: object, layers: int) -> None:
    assert read_layer_sizes(listing, layers) is None
