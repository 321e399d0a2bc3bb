"""The form of an elicitation as questions, one for each field: what is shown, and what an answer means."""

import math
from typing import Any, NamedTuple

from mooring.cli.trying.schemas import Json, choices, describe, problem, resolve, types_of

__all__ = ["Question", "questions_of"]

_YES, _NO = ("y", "yes", "true"), ("n", "no", "false")


class Question(NamedTuple):
    """One field."""

    key: str
    schema: Json
    root: Json
    required: bool

    @property
    def title(self) -> str:
        """What it is called."""
        return str(self.schema.get("title") or self.key)

    @property
    def explanation(self) -> str:
        """What is meant by it; may be empty."""
        return str(self.schema.get("description") or "")

    @property
    def kind(self) -> str:
        """What an answer may be, in words."""
        if self.choices:
            return "numbers, with commas between them" if self.is_many else "a number"
        if types_of(self.schema, self.root) == ["boolean"]:
            return "yes or no"
        plain = {name: value for name, value in self.schema.items() if name != "default"}
        return describe(plain, self.root)

    @property
    def is_many(self) -> bool:
        """May several be chosen?"""
        return types_of(self.schema, self.root) == ["array"]

    @property
    def choices(self) -> list[tuple[Any, str]]:
        """What can be chosen, each with its title or nothing; none if it is to be written."""
        schema = resolve(self.schema.get("items"), self.root) if self.is_many else self.schema
        return choices(schema, self.root)

    @property
    def default(self) -> str:
        """What an empty answer stands for, in words; nothing if there is none."""
        value = self.schema.get("default")
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        titles = {str(known): title for known, title in self.choices if title}
        values = value if isinstance(value, list) else [value]
        return ", ".join(titles.get(str(one), str(one)) for one in values)

    @property
    def prompt(self) -> str:
        """What stands before the answer."""
        notes = [self.kind] if self.required else [self.kind, "optional"]
        default = f" [{self.default}]" if self.default else ""
        return f"{self.title} ({', '.join(notes)}){default}: "

    def read(self, text: str) -> Any:
        """The value of an answer; None if the field is left out. Raises ValueError with what is wrong."""
        text = text.strip()
        if not text:
            if "default" in self.schema:
                return self.schema["default"]
            if self.required:
                raise ValueError("needs an answer")
            return None
        value = self._chosen(text) if self.choices else self._written(text)
        if (wrong := problem(self.schema, value, self.root)) is not None:
            raise ValueError(wrong)
        return value

    def _chosen(self, text: str) -> Any:
        if self.is_many:
            return [self._choice(part.strip()) for part in text.split(",") if part.strip()]
        return self._choice(text)

    def _choice(self, text: str) -> Any:
        """By its number, or as it is written."""
        known = self.choices
        for value, title in known:
            if text in (str(value), title):
                return value
        if text.isdecimal() and len(text) < 10 and 0 < int(text) <= len(known):
            return known[int(text) - 1][0]
        raise ValueError(f"must be a number from 1 to {len(known)}")

    def _written(self, text: str) -> Any:
        types = types_of(self.schema, self.root)
        if "boolean" in types and text.lower() in (*_YES, *_NO):
            return text.lower() in _YES
        if types == ["boolean"]:
            raise ValueError("must be yes or no")
        if "integer" in types or "number" in types:
            return _number(text)
        return text


def _number(text: str) -> Any:
    """The number, if it is one; what it is otherwise, its schema judges."""
    for parse in (int, float):
        try:
            value = parse(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return text


def questions_of(schema: Any) -> list[Question]:
    """One for each property of a requested schema."""
    root = schema if isinstance(schema, dict) else {}
    properties, required = root.get("properties"), root.get("required")
    names = required if isinstance(required, list) else []
    return [
        Question(key, resolve(one, root), root, key in names)
        for key, one in (properties if isinstance(properties, dict) else {}).items()
    ]
