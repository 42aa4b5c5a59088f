"""Reading `WWW-Authenticate`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.registry.challenge import Challenge, parse_challenges

BEARER = Challenge("bearer", "https://t.lan/token", "r.lan", "repository:a/b:pull,push")


@pytest.mark.parametrize(
    ("headers", "challenges"),
    [
        ([], []),
        ([""], []),
        (["Basic"], [Challenge("basic")]),
        (['Basic realm="x"'], [Challenge("basic", "x")]),
        (["basic REALM=x"], [Challenge("basic", "x")]),
        (["Basic realm = x , charset=UTF-8"], [Challenge("basic", "x")]),
        (
            ['Bearer realm="https://t.lan/token",service="r.lan",scope="repository:a/b:pull,push"'],
            [BEARER],
        ),
        (
            [
                (
                    'Basic realm="x, y", BEARER realm="https://t.lan/token", service="r.lan",'
                    ' scope="repository:a/b:pull,push"'
                )
            ],
            [Challenge("basic", "x, y"), BEARER],
        ),
        (["Negotiate, Basic realm=x"], [Challenge("negotiate"), Challenge("basic", "x")]),
        (["Negotiate YWJj==, Basic realm=x"], [Challenge("negotiate"), Challenge("basic", "x")]),
        (["Basic realm=x", "Bearer realm=y"], [Challenge("basic", "x"), Challenge("bearer", "y")]),
        ([r'Basic realm="a \"b\" \\c"'], [Challenge("basic", r'a "b" \c')]),
        (['Basic realm="first", realm="second"'], [Challenge("basic", "first")]),
        (['realm="x"'], []),
        (['Basic realm="never closed'], [Challenge("basic")]),
    ],
)
def test_challenges_are_read_as_they_are_found(
    headers: list[str], challenges: list[Challenge]
) -> None:
    assert parse_challenges(headers) == challenges


plain = st.text('abc,=: /"\\', max_size=12)


@given(st.lists(st.builds(Challenge, st.sampled_from(["basic", "bearer"]), plain, plain, plain)))
def test_what_is_written_with_quotes_is_read_back(challenges: list[Challenge]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    line = ", ".join(
        f"{each.scheme} realm={quoted(each.realm)},service={quoted(each.service)},"
        f"scope={quoted(each.scope)}"
        for each in challenges
    )

    assert parse_challenges([line]) == challenges


@given(st.lists(st.text(max_size=60)))
def test_no_header_is_too_odd_to_be_read(headers: list[str]) -> None:
    assert all(each.scheme == each.scheme.lower() for each in parse_challenges(headers))
