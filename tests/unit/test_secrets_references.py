"""The grammar of values that may be references: what means what, and what is refused."""

from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import UserError
from mooring.secrets.references import Reference, Template, anchored, parse, sort_out, written

LINEAR = Reference("secret", "linear")
HERE = Path("/here")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("secret:linear", (LINEAR,)),
        ("env:HOME", (Reference("env", "HOME"),)),
        ("keyring:gh.token-2", (Reference("keyring", "gh.token-2"),)),
        ("file:/run/secrets/a b}c", (Reference("file", "/run/secrets/a b}c"),)),
        ("Bearer {secret:linear}", ("Bearer ", LINEAR)),
        ("{secret:linear}{env:A}", (LINEAR, Reference("env", "A"))),
        ("{{secret:linear}}", ("{", LINEAR, "}")),
        ("", ()),
        ("plain", ("plain",)),
        ('{"a": {"b": []}, "env": {}}', ('{"a": {"b": []}, "env": {}}',)),
        ("{env}${file}{}", ("{env}${file}{}",)),
        ("SECRET:linear", ("SECRET:linear",)),
        ("https://x/?q=secret:linear", ("https://x/?q=secret:linear",)),
        ("literal:secret:linear", ("secret:linear",)),
        ("literal:{secret:linear", ("{secret:linear",)),
        ("literal:", ("",)),
        ("{literal:{}secret:linear} {secret:linear}", ("{", "secret:linear} ", LINEAR)),
        ("{literal:}env:A {secret:linear}", ("env:A ", LINEAR)),
    ],
)
def test_what_a_value_means(text: str, parts: tuple[object, ...]) -> None:
    assert parse(text).parts == parts


@pytest.mark.parametrize(
    "text",
    [
        "secret:",
        "secret:hunter2!",
        "secret:-hunter2",
        "secret:" + "hunter2" * 10,
        "keyring:hunter2/a",
        "env:hunter2 x",
        "env:2hunter2",
        "file:",
        "file: ",
        "file:hunter2\0",
        "{secret:hunter2",
        "{env: hunter2}",
        "a {keyring:} hunter2",
        "{literal:hunter2",
        "env:hunter2 {secret:linear}",
    ],
)
def test_what_cannot_be_meant_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match="literal:") as refused:
        parse(text)
    assert "hunter2" not in str(refused.value)


def test_references_are_told_once_and_filled_in_as_they_are() -> None:
    template = parse("{secret:linear}-{env:A}-{secret:linear}")
    assert template.references == (LINEAR, Reference("env", "A"))
    assert template.fill(lambda reference: f"<{{{reference}}}>") == (
        "<{secret:linear}>-<{env:A}>-<{secret:linear}>"
    )


@pytest.mark.parametrize(
    ("text", "absolute"),
    [
        ("file:token", "file:/here/token"),
        ("file:./a/../token", "file:/here/a/../token"),
        ("file:/run/token", "file:/run/token"),
        ("file:~/token", f"file:{Path.home()}/token"),
        ("a {file:token} {secret:linear}", "a {file:/here/token} {secret:linear}"),
        ("secret:linear", "secret:linear"),
        ("literal:{file:token}", "literal:{file:token}"),
        ("{literal:{}file:token} {env:A}", "{literal:{}file:token} {env:A}"),
    ],
)
def test_paths_begin_where_they_were_written(text: str, absolute: str) -> None:
    assert anchored(text, HERE) == absolute
    assert anchored(absolute, Path("/elsewhere")) == absolute


def test_a_path_that_braces_cannot_hold_is_refused() -> None:
    assert anchored("file:token", Path("/a}b")) == "file:/a}b/token"
    with pytest.raises(ValueError, match="}"):
        anchored("{file:token}", Path("/a}b"))
    with pytest.raises(ValueError, match="home"):
        anchored("file:~nobody-of-that-name/token", HERE)


def test_variables_are_sorted_into_texts_and_references() -> None:
    given = {"A": "plain", "B": "literal:env:x", "C": "x {file:t}", "D": '{"a":1}', "E": "secret:linear"}
    texts, referring = sort_out(given, HERE)
    assert texts == {"A": "plain", "B": "env:x", "D": '{"a":1}'}
    assert referring == {"C": "x {file:/here/t}", "E": "secret:linear"}
    with pytest.raises(UserError, match="the value of TOKEN cannot be used") as refused:
        sort_out({"TOKEN": "secret:hunter2!"}, HERE)
    assert "hunter2" not in refused.value.message + refused.value.hint


PIECES = st.sampled_from(
    ["{", "}", ":", "secret", "file:", "literal:", "{secret:x", "{literal:", "a b", LINEAR]
)


@given(st.lists(PIECES, max_size=8))
def test_whatever_a_template_is_it_can_be_written(parts: list[str | Reference]) -> None:
    template = Template(tuple(parts))

    def meant(one: Template) -> list[str | Reference]:
        """With texts side by side as one."""
        runs = groupby(one.parts, lambda part: isinstance(part, Reference))
        return [
            each for is_one, run in runs for each in (run if is_one else ["".join(map(str, run))]) if each
        ]

    assert meant(parse(written(template))) == meant(template)
