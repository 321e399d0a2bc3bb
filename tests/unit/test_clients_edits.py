"""The check after each edit: it lets pass what was asked for, and nothing else."""

import pytest

from mooring.clients.editing.edits import (
    Place,
    Reading,
    Refused,
    Section,
    check,
    complete,
    decoded,
    place_of,
    same,
    shown,
)

SERVERS = Section(("mcpServers",))
LIST = Section(("servers",), is_list=True)
OLD = {"a": 1, "mcpServers": {"k": {"url": "u"}}, "z": [1, 2]}


def passes(before: object, after: object, section: Section = SERVERS, entry: object = None) -> bool:
    try:
        check(Reading(before, ("// c",)), Reading(after, ("// c",)), section, "x", entry)  # type: ignore[arg-type]
    except Refused as refusal:
        assert refusal.code == "edit_refused" and refusal.hint
        return False
    return True


def test_the_entry_and_nothing_else_may_change() -> None:
    entry = {"url": "n", "on": True}
    added = {**OLD, "mcpServers": {"k": {"url": "u"}, "x": entry}}
    assert passes(OLD, added, entry=entry)
    assert passes(added, added, entry=entry)
    assert passes(added, OLD)
    assert not passes(OLD, OLD, entry=entry)
    assert not passes(added, added)
    assert not passes(OLD, {**added, "a": 1.0}, entry=entry)
    assert not passes(OLD, {**added, "a": True}, entry=entry)
    assert not passes(OLD, {**added, "z": [2, 1]}, entry=entry)
    assert not passes(OLD, {**added, "mcpServers": {"x": entry}}, entry=entry)
    assert not passes(OLD, {**added, "more": 1}, entry=entry)
    assert not passes(OLD, added, entry={"url": "n", "on": 1})


def test_other_keys_stay_in_their_order() -> None:
    moved = {"mcpServers": {"k": {"url": "u"}, "x": {}}, "a": 1, "z": [1, 2]}
    assert not passes(OLD, moved, entry={})
    # Inside the entry the order is that of the document, whatever the caller's.
    assert passes({"mcpServers": {}}, {"mcpServers": {"x": {"b": 1, "a": 2}}}, entry={"a": 2, "b": 1})


@pytest.mark.parametrize("before", [None, {}, {"mcpServers": None}, {"mcpServers": {}}])
def test_a_section_that_was_missing_counts_as_an_empty_one(before: object) -> None:
    assert passes(before, {"mcpServers": {"x": {"url": "u"}}}, entry={"url": "u"})


@pytest.mark.parametrize("section", [SERVERS, LIST, Section(("a", "b"))])
def test_what_is_of_the_wrong_type_is_never_taken_for_an_empty_section(section: Section) -> None:
    for wrong in ("text", 1, False, ["b"] if not section.is_list else {"b": 1}):
        assert not passes({section.keys[0]: wrong}, {section.keys[0]: wrong}, section)


def test_entries_of_a_list_are_known_by_their_name() -> None:
    others: list[object] = [{"name": "k"}, "odd", {"url": "nameless"}]
    entry = {"url": "u"}
    assert complete(LIST, "x", {"url": "u", "name": "y"}) == {"name": "x", "url": "u"}
    assert passes({"servers": others}, {"servers": [*others, {"name": "x", "url": "u"}]}, LIST, entry)
    assert passes({"servers": [{"name": "x"}, *others]}, {"servers": others}, LIST)
    assert not passes({"servers": others}, {"servers": [*others, {"url": "u"}]}, LIST, entry)
    assert not passes(
        {"servers": others}, {"servers": [*others, *[{"name": "x", "url": "u"}] * 2]}, LIST, entry
    )


def test_comments_outside_the_entry_stay() -> None:
    after: object = {"mcpServers": {"x": {}}}
    with pytest.raises(Refused, match="comment"):
        check(Reading({}, ("# a", "# b")), Reading(after, ("# b", "# a")), SERVERS, "x", {})


def test_the_same_is_strict_but_for_the_order_of_keys() -> None:
    assert same({"a": 1, "b": [None]}, {"b": [None], "a": 1})
    assert not same({"a": 1, "b": 2}, {"b": 2, "a": 1}, ordered=True)
    assert not same({"l": [{"a": 1, "b": 2}]}, {"l": [{"b": 2, "a": 1}]}, ordered=True)
    assert same(float("nan"), float("nan"))
    assert not same([1], [1, 2])
    assert not same(1, 1.0) and not same(True, 1) and not same(None, False)


def test_places_are_counted_as_editors_do() -> None:
    text = "ab\r\nc\rd\n\nß!"
    assert place_of(text, 0) == Place(1, 1)
    assert place_of(text, text.index("c")) == Place(2, 1)
    assert place_of(text, text.index("d")) == Place(3, 1)
    assert place_of(text, text.index("!")) == Place(5, 2)


def test_what_is_not_utf_8_is_refused_where_it_begins() -> None:
    assert decoded(b"\xef\xbb\xbf{}") == ("\ufeff", "{}")
    assert decoded("{ß}".encode()) == ("", "{ß}")
    with pytest.raises(Refused, match=r"^line 2, column 2: ") as refused:
        decoded(b"\xef\xbb\xbfab\nc\xff")
    assert refused.value.place == Place(2, 2)
    with pytest.raises(Refused, match="line 1, column 1"):
        decoded("{}".encode("utf-16"))


def test_names_are_shown_without_what_a_terminal_would_obey() -> None:
    assert shown("a\x1b[31m\n") == '"a\\u001b[31m\\n"'
    assert len(shown("x" * 1000)) < 80
