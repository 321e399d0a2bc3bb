"""JSON, JSONC and JSON5: one entry put in or taken out by splicing the text.

`JSON` reads what RFC 8259 has, `JSONC` comments and trailing commas too, `JSON5` all of JSON5; what is
written is JSON in each. After `put` and `remove` of an entry that was not there the bytes are as before, but

- a section that `put` had to make stays, empty, and so does a document that was blank or missing;
- white space alone between the brackets of the section goes: `{ }` becomes `{}`.
"""

from mooring.clients.editing.edits import (
    Reading,
    Refused,
    Section,
    Value,
    check,
    complete,
    decoded,
    same,
    shown,
)
from mooring.clients.editing.json_scan import Container, Dialect, Element, scan
from mooring.clients.editing.json_splice import Document, Layout, rendered
from mooring.clients.editing.splices import Splice, spliced

__all__ = ["JSON", "JSON5", "JSONC", "JsonFamily"]


class JsonFamily:
    """One of the family, as a `Format`."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def read(self, data: bytes) -> Value:
        """What the document says; a blank one is an empty object. Raises Refused."""
        root, _ = scan(decoded(data)[1], self._dialect, deepest=0)
        return root.value if root else {}

    def put(self, data: bytes, section: Section, name: str, entry: dict[str, Value]) -> bytes:
        """Make the entry of that name equal to `entry`. Raises Refused."""
        mark, text = decoded(data)
        before = self._document(text, section)
        wanted = complete(section, name, entry)
        if before.root is None:
            text = _begun(text, _nested(section.keys, section, name, wanted))
        else:
            text = spliced(text, self._splices(before, before.root, section, name, wanted))
        self._check(before, text, section, name, entry)
        return (mark + text).encode()

    def remove(self, data: bytes, section: Section, name: str) -> bytes:
        """Without the entry of that name; as it is if there is none. Raises Refused."""
        mark, text = decoded(data)
        before = self._document(text, section)
        if before.root is None:
            return data
        path, missing = _path(before, before.root, section)
        index = None if missing else _index(before, path[-1], section, name)
        if index is None:
            return data
        text = spliced(text, before.removal(path[-1], index))
        self._check(before, text, section, name, None)
        return (mark + text).encode()

    def _document(self, text: str, section: Section) -> Document:
        return Document(text, self._dialect, deepest=len(section.keys) + 1)

    def _check(
        self, before: Document, text: str, section: Section, name: str, entry: dict[str, Value] | None
    ) -> None:
        after = self._document(text, section)
        check(_reading(before, section, name), _reading(after, section, name), section, name, entry)

    def _splices(
        self, document: Document, root: Element, section: Section, name: str, entry: dict[str, Value]
    ) -> list[Splice]:
        path, missing = _path(document, root, section)
        if missing:
            inner = _nested(missing[1:], section, name, entry)
            return document.insertion(path, missing[0], inner, like_siblings=False)
        index = _index(document, path[-1], section, name)
        if index is None:
            key = None if section.is_list else name
            return document.insertion(path, key, entry, like_siblings=True)
        return self._update(document, path, path[-1].elements[index], entry)

    def _update(
        self, document: Document, path: list[Container], element: Element, entry: dict[str, Value]
    ) -> list[Splice]:
        """Change what differs, one thing after the other, in a copy of the entry: the file may be large."""
        if element.inside is None or not element.inside.is_object:
            return document.replacement(path, element, entry)
        one_line = not document.is_spread(path[-1])
        layout = document.layout(path)._replace(is_one_line=one_line)
        indent = document.line_indent(element.value_start)
        text, changed = "", indent + document.text[element.value_start : element.end]
        while changed != text:
            text = changed
            copy = Document(text, self._dialect, fallback=layout)
            if copy.root and copy.root.inside:
                changed = spliced(text, _difference(copy, [copy.root.inside], entry))
        return [Splice(element.value_start, element.end, text.removeprefix(indent))]


JSON = JsonFamily(Dialect("JSON", has_comments=False, has_trailing_commas=False))
JSONC = JsonFamily(Dialect("JSON with comments"))
JSON5 = JsonFamily(Dialect("JSON5", is_json5=True))


def _difference(document: Document, path: list[Container], wanted: dict[str, Value]) -> list[Splice]:
    """The first thing to change in an object so that it becomes `wanted`; what goes, goes last.

    Were it to go first, nothing might be left that shows how the object is written.
    """
    container = path[-1]
    keys = {element.key for element in container.elements}
    for element in container.elements:
        if element.key in wanted and not same(element.value, value := wanted[element.key]):
            if element.inside and element.inside.is_object and isinstance(value, dict):
                return _difference(document, [*path, element.inside], value)
            return document.replacement(path, element, value)
    for key, value in wanted.items():
        if key not in keys:
            return document.insertion(path, key, value, like_siblings=True)
    for index, element in enumerate(container.elements):
        if element.key not in wanted:
            return document.removal(container, index)
    return []


def _begun(text: str, value: Value) -> str:
    """A document where there was none; comments are kept, white space alone is not."""
    newline = "\r\n" if "\r\n" in text else "\n"
    above = text if text.strip() else ""
    if above and not above.endswith(("\n", "\r")):
        above += newline
    return f"{above}{rendered(value, Layout(newline=newline), '')}{newline}"


def _nested(keys: tuple[str, ...], section: Section, name: str, entry: dict[str, Value]) -> Value:
    """The entry in all that is missing around it."""
    value: Value = [entry] if section.is_list else {name: entry}
    for key in reversed(keys):
        value = {key: value}
    return value


def _path(document: Document, root: Element, section: Section) -> tuple[list[Container], tuple[str, ...]]:
    """All containers down to the section, as far as there are any, and the keys that are missing."""
    path: list[Container] = []
    element = root
    for depth, key in enumerate(section.keys):
        path.append(_container(document, element, section, is_object=True))
        child = next((child for child in path[-1].elements if child.key == key), None)
        if child is None:
            return path, section.keys[depth:]
        element = child
    return [*path, _container(document, element, section, is_object=not section.is_list)], ()


def _container(document: Document, element: Element, section: Section, *, is_object: bool) -> Container:
    if element.inside is None or element.inside.is_object != is_object:
        where = "the document" if element.key is None else shown(element.key)
        what = "an object" if is_object else "a list"
        raise Refused(
            f"{where} must be {what} to have entries in {section}", document.place(element.value_start)
        )
    return element.inside


def _index(document: Document, container: Container, section: Section, name: str) -> int | None:
    """Which element of the section is the entry of that name."""
    found = [
        index
        for index, element in enumerate(container.elements)
        if (_named(element.value, section) if section.is_list else element.key) == name
    ]
    if len(found) > 1:
        place = document.place(container.elements[found[1]].start)
        raise Refused(f"an entry named {shown(name)} is here for the second time", place)
    return found[0] if found else None


def _named(value: Value, section: Section) -> Value:
    return value.get(section.name_key) if isinstance(value, dict) else None


def _reading(document: Document, section: Section, name: str) -> Reading:
    if document.root is None:
        return Reading(None, document.comments_outside(None))
    path, missing = _path(document, document.root, section)
    index = None if missing else _index(document, path[-1], section, name)
    entry = None if index is None else path[-1].elements[index]
    return Reading(document.root.value, document.comments_outside(entry))
