"""Where in a TOML document an entry is: written with headers, with dotted keys, or between brackets."""

from typing import Any

from mooring.clients.editing.edits import Refused, Section, decoded, place_of, shown
from mooring.clients.editing.splices import Extent, end_of_words, line_break, line_start
from mooring.clients.editing.toml_tree import Inline, Path, Statement, parse, scan

__all__ = ["Before"]


class Before:
    """A document, and where in it the entry is or will be."""

    def __init__(self, data: bytes, section: Section, name: str, newline: str = "") -> None:
        self.bom, self.text = decoded(data)
        self.newline = newline or line_break(self.text)
        self.data = parse(self.text)
        self.statements, self.comments = scan(self.text)
        self.section, self.name = section, name
        self.entry: dict[str, Any] | None = None
        self.path: Path = (*section.keys, name)
        self._find()

    def _find(self) -> None:
        found: Any = self.data
        for depth, key in enumerate(self.section.keys):
            self._must_be(dict, found, self.section.keys[:depth])
            found = found.get(key)
            if found is None:
                return
        self._must_be(list if self.section.is_list else dict, found, self.section.keys)
        if not self.section.is_list:
            self.entry = found.get(self.name)
            if self.entry is not None:
                self._must_be(dict, self.entry, self.path)
            return
        numbers = [
            number
            for number, item in enumerate(found)
            if isinstance(item, dict) and item.get(self.section.name_key) == self.name
        ]
        if len(numbers) > 1:
            raise self._refused(f"{shown(self.name)} is there twice", (*self.section.keys, numbers[1]))
        if numbers:
            self.path = (*self.section.keys, numbers[0])
            self.entry = found[numbers[0]]

    def _must_be(self, kind: type, found: object, path: Path) -> None:
        if not isinstance(found, kind):
            raise self._refused(f"this should be a {'list' if kind is list else 'table'}", path)

    def _refused(self, message: str, path: Path) -> Refused:
        found = self.inline(path)
        places = [found.start] if found else [statement.start for statement in self.owned(path)]
        return Refused(message, place_of(self.text, places[0]) if places else None)

    def owned(self, path: Path) -> list[Statement]:
        """The statements that say what is at that path, or further in."""
        return [statement for statement in self.statements if statement.path[: len(path)] == path]

    @property
    def is_dotted(self) -> bool:
        """Is the entry there without a header or brackets of its own?"""
        paths = {statement.path for statement in self.owned(self.path)}
        return bool(paths) and self.path not in paths

    def regions(self, path: Path) -> list[Extent]:
        """Where those stand that have none of another between them: lines, without the last line break."""
        regions: list[Extent] = []
        was_owned = False
        for statement in self.statements:
            is_owned = statement.path[: len(path)] == path
            if is_owned:
                start = regions.pop()[0] if was_owned else line_start(self.text, statement.start)
                regions.append((start, end_of_words(self.text, statement.end)))
            was_owned = is_owned
        return regions

    def inline(self, path: Path) -> Inline | None:
        """The value at that path, if it is written as one: of its own, or in the brackets of another."""
        for statement in self.statements:
            if statement.value and path[: len(statement.path)] == statement.path:
                return _further_in(statement.value, path[len(statement.path) :])
        return None

    def part(self) -> tuple[Inline, int]:
        """The brackets that the entry is between, and which of their parts it is."""
        around, last = self.inline(self.path[:-1]), self.path[-1]
        if around and isinstance(last, int):
            return around, last
        if around and (last,) in around.keys:
            return around, around.keys.index((last,))
        raise Refused(f"{shown(self.name)} is written with dotted keys between brackets")


def _further_in(value: Inline, path: Path) -> Inline | None:
    for key in path:
        if isinstance(key, int):
            value = value.parts[key]
        elif (key,) in value.keys:
            value = value.parts[value.keys.index((key,))]
        else:
            return None
    return value
