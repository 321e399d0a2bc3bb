"""The grammar of references, on whatever people may write."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mooring.secrets.references import Reference, Template, anchored, literally, parse

PIECES = st.sampled_from(
    [
        "{",
        "}",
        "{}",
        "literal:",
        "{literal:",
        "env:",
        "{env:",
        "secret:",
        "{secret:",
        "file:",
        "{file:",
        "A",
        "é",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=8).map("".join))
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,20}", fullmatch=True)
REFERENCES = st.builds(Reference, st.sampled_from(["env", "file", "keyring", "secret"]), NAMES)


def meant(text: str) -> Template | None:
    try:
        return parse(text)
    except ValueError:
        return None


@given(TEXTS)
def test_any_text_can_be_meant_literally(text: str) -> None:
    written = parse(literally(text))
    assert not written.references
    assert written.fill(str) == text


@given(TEXTS)
def test_a_text_without_what_begins_a_reference_is_itself(text: str) -> None:
    if literally(text) == text:
        assert parse(text).parts == ((text,) if text else ())


@given(st.lists(st.one_of(REFERENCES, st.text("ab {}\"':,[]", max_size=5)), max_size=6))
def test_references_in_braces_are_found_in_any_text(parts: list[Reference | str]) -> None:
    text = "".join(f"{{{part}}}" if isinstance(part, Reference) else part for part in parts)
    template = parse(text)
    wanted = [part for part in parts if isinstance(part, Reference)]
    assert [part for part in template.parts if isinstance(part, Reference)] == wanted
    assert template.fill(lambda reference: f"{{{reference}}}") == text


@given(REFERENCES)
def test_a_whole_reference_reads_as_it_is_written(reference: Reference) -> None:
    assert parse(str(reference)).parts == (reference,)


@given(TEXTS, st.text("/ab{ ", max_size=8))
def test_anchoring_changes_paths_only_and_only_once(text: str, directory: str) -> None:
    template = meant(text)
    if template is None or any(one.name.startswith("~") for one in template.references):
        return
    where = Path(f"/{directory}")
    once = anchored(text, where)
    assert anchored(once, Path("/other")) == once
    found = parse(once)
    assert len(found.parts) == len(template.parts)
    for before, after in zip(template.parts, found.parts, strict=True):
        if isinstance(before, Reference) and before.scheme == "file":
            assert after == Reference("file", str(where / before.name))
        else:
            assert after == before


@given(TEXTS)
def test_what_is_looked_up_is_never_looked_through(text: str) -> None:
    template = meant(text)
    if template is not None and template.references:
        assert "{secret:again}" in template.fill(lambda _: "{secret:again}")
