"""The one grammar of values that may be references. Pure; and nothing it says repeats a value.

    env:NAME  file:PATH  keyring:NAME  secret:NAME     the whole value is a reference
    Bearer {secret:linear}                             so is each of these in braces, inside any text
    literal:TEXT                                       TEXT, whatever is in it
    {literal:TEXT}                                     the same inside a text: {literal:{} is a brace

Any other text is itself, with all its braces: only `{env:`, `{file:`, `{keyring:`, `{secret:` and `{literal:`
begin something, so JSON never does. Inside braces a name ends at the first `}`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from mooring.errors import UserError

__all__ = [
    "LITERAL",
    "Reference",
    "Template",
    "anchored",
    "is_secret_name",
    "literally",
    "parse",
    "sort_out",
    "written",
]

LITERAL = "literal"
SECRET_NAME_RULE = "1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit"  # noqa: S105 - a sentence
_SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAMES = {
    "env": (re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "the name of an environment variable"),
    "file": (re.compile(r"[^\0]*[^\0\s][^\0]*"), "a path"),
    "keyring": (_SECRET_NAME, f"a name ({SECRET_NAME_RULE})"),
    "secret": (_SECRET_NAME, f"the name of a secret ({SECRET_NAME_RULE})"),
}
"""By scheme: what may follow, and how that is called."""
_BRACED = re.compile(r"\{(literal|env|file|keyring|secret):([^}]*)(\}?)")
_BEGINNING = re.compile(r"\{(?=(?:literal|env|file|keyring|secret):)")
_HOW_TO_MEAN_TEXT = "if it is no reference, write literal: before the whole value"


def is_secret_name(text: str) -> bool:
    """May a secret be called so?"""
    return _SECRET_NAME.fullmatch(text) is not None


class Reference(NamedTuple):
    """Where a value is."""

    scheme: str
    name: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.name}"


class Template(NamedTuple):
    """A value as it was written: text, and references to be put between."""

    parts: tuple[str | Reference, ...]

    @property
    def references(self) -> tuple[Reference, ...]:
        """Those in it, each once, in their order."""
        return tuple(dict.fromkeys(part for part in self.parts if isinstance(part, Reference)))

    def fill(self, look_up: Callable[[Reference], str]) -> str:
        """The value. What `look_up` finds is put in as it is, never looked through for more."""
        return "".join(look_up(part) if isinstance(part, Reference) else part for part in self.parts)


def parse(text: str) -> Template:
    """What the text means. Raises ValueError with a sentence that does not repeat it: it may be a secret."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme == LITERAL:
        return Template((rest,))
    if colon and scheme in _NAMES:
        return Template((_reference(scheme, rest),))
    parts: list[str | Reference] = []
    end = 0
    for match in _BRACED.finditer(text):
        parts.append(text[end : match.start()])
        scheme, name, closed = match.groups()
        if not closed:
            raise ValueError(f"'{{{scheme}:' has no closing brace; {_HOW_TO_MEAN_TEXT}")
        parts.append(name if scheme == LITERAL else _reference(scheme, name))
        end = match.end()
    parts.append(text[end:])
    return Template(tuple(part for part in parts if part))


def literally(text: str) -> str:
    """How to write a text so that it means itself."""
    begins, colon, _ = text.partition(":")
    is_plain = not (colon and (begins == LITERAL or begins in _NAMES)) and not _BRACED.search(text)
    return text if is_plain else f"{LITERAL}:{text}"


def written(template: Template) -> str:
    """How to write a template so that `parse` makes it of it. Its references can stand in braces."""
    if len(template.parts) == 1 and isinstance(template.parts[0], Reference):
        return str(template.parts[0])
    if not template.references:
        return literally(template.fill(str))
    # Texts side by side may be the beginning of something together that none of them is alone.
    runs = [list(parts) for _, parts in groupby(template.parts, lambda part: isinstance(part, Reference))]
    text = "".join(_written(run) for run in runs)
    begins, colon, _ = text.partition(":")
    # Nor may the whole be taken for a reference.
    return f"{{{LITERAL}:{text[0]}}}{text[1:]}" if colon and begins in (LITERAL, *_NAMES) else text


def _written(run: Sequence[str | Reference]) -> str:
    if isinstance(run[0], Reference):
        return "".join(f"{{{reference}}}" for reference in run)
    return _BEGINNING.sub(f"{{{LITERAL}:{{}}", "".join(map(str, run)))


def anchored(text: str, directory: Path) -> str:
    """The same value with its paths absolute: relative ones begin at `directory`, `~` is the user's home.

    Raises ValueError as `parse` does.
    """
    parse(text)
    if text.startswith("file:"):
        return f"file:{_absolute(text.removeprefix('file:'), directory)}"
    if text.partition(":")[0] in (LITERAL, *_NAMES):
        return text
    return _BRACED.sub(lambda match: _anchored_in_braces(match, directory), text)


def _anchored_in_braces(match: re.Match[str], directory: Path) -> str:
    scheme, name, _ = match.groups()
    if scheme != "file":
        return match[0]
    path = _absolute(name, directory)
    if "}" in path:
        raise ValueError("a path in braces cannot have a '}' in it, and that of its directory has one")
    return f"{{file:{path}}}"


def _absolute(path: str, directory: Path) -> str:
    try:
        return str((directory / Path(path).expanduser()).absolute())
    except RuntimeError:
        raise ValueError("the home directory that '~' stands for is not known") from None


def sort_out(variables: Mapping[str, str], directory: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Variables as people write them: (those that are plain text, those that have references).

    The second are as they were written, but for paths, which are absolute: relative ones begin at
    `directory`. Raises UserError that names the variable.
    """
    texts: dict[str, str] = {}
    referring: dict[str, str] = {}
    for variable, value in variables.items():
        try:
            template = parse(value)
            if template.references:
                referring[variable] = anchored(value, directory)
            else:
                texts[variable] = template.fill(str)
        except ValueError as error:
            raise UserError(
                f"the value of {variable} cannot be used: {error}",
                code="bad_reference",
                hint="mooring secret --help says how values are written",
            ) from None
    return texts, referring


def _reference(scheme: str, name: str) -> Reference:
    pattern, what = _NAMES[scheme]
    if not pattern.fullmatch(name):
        raise ValueError(f"after '{scheme}:' comes {what}; {_HOW_TO_MEAN_TEXT}")
    return Reference(scheme, name)
