"""WWW-Authenticate, as servers write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.oauth.bounds import MAX_TEXT_CHARACTERS, MOST_CHALLENGES, MOST_SCOPES
from mooring.oauth.challenges import NO_CHALLENGE, Bearer, Challenge, bearer_of, parse, split_scopes

PRM = "https://mcp.example.com/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("Bearer", [Challenge("bearer", {})]),
        (f'Bearer resource_metadata="{PRM}"', [Challenge("bearer", {"resource_metadata": PRM})]),
        ('bearer  A=b ,\tc = "d, e"', [Challenge("bearer", {"a": "b", "c": "d, e"})]),
        (
            'Basic realm="x", Bearer error="invalid_token", scope="a b"',
            [
                Challenge("basic", {"realm": "x"}),
                Challenge("bearer", {"error": "invalid_token", "scope": "a b"}),
            ],
        ),
        ("Negotiate YWJj==, Bearer", [Challenge("negotiate", {}), Challenge("bearer", {})]),
        ("Negotiate, Bearer scope=x", [Challenge("negotiate", {}), Challenge("bearer", {"scope": "x"})]),
        (r'Bearer realm="say \"hi\", Basic x=y"', [Challenge("bearer", {"realm": 'say "hi", Basic x=y'})]),
        ('Bearer scope="first", scope="second"', [Challenge("bearer", {"scope": "first"})]),
        ('Bearer scope="never closed', [Challenge("bearer", {})]),
        (', , Bearer scope="x",', [Challenge("bearer", {"scope": "x"})]),
        ("", []),
        ("=", []),
    ],
)
def test_challenges_are_told_apart_from_their_parameters(field: str, expected: list[Challenge]) -> None:
    assert parse(field) == expected


def test_the_bearer_challenge_is_found_in_whichever_field() -> None:
    fields = [
        b'Basic realm="a"',
        b'DPoP algs="ES256", Bearer resource_metadata="https://x/", scope="b a b", error="x"',
    ]
    assert bearer_of(fields) == Bearer("https://x/", ("b", "a"), "x")
    assert bearer_of([]) == bearer_of([b"Basic"]) == NO_CHALLENGE


_names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=10)
_values = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)


@given(st.lists(st.tuples(_names, st.dictionaries(_names, _values, min_size=1, max_size=4)), max_size=5))
def test_what_is_written_is_read(challenges: list[tuple[str, dict[str, str]]]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    field = ", ".join(
        f"{scheme} " + ", ".join(f"{name}={quoted(value)}" for name, value in parameters.items())
        for scheme, parameters in challenges
    )
    assert parse(field) == [Challenge(scheme, parameters) for scheme, parameters in challenges]


@given(st.text())
def test_any_field_can_be_looked_at(field: str) -> None:
    assert len(parse(field)) <= MOST_CHALLENGES


def test_a_field_without_end_is_cut() -> None:
    assert len(parse("Bearer," * 100_000)) == MOST_CHALLENGES
    [challenge] = parse('Bearer a="' + "x" * MAX_TEXT_CHARACTERS + '"')
    assert challenge.parameters == {}
    assert parse("a" * 1_000_000 + '="' + "\\" * 1_000_000) == [Challenge("a" * MAX_TEXT_CHARACTERS, {})]


def test_scopes_are_counted_and_looked_at() -> None:
    assert split_scopes('a  b a "c" \x7f é d') == ("a", "b", "d")
    assert len(split_scopes(" ".join(map(str, range(1000))))) == MOST_SCOPES
