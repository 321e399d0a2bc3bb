"""Texts that look like secrets: to be warned about in a file, and not to be printed. Pure.

A reference says where a secret is, and is none. All of this guesses: by the name of a variable, or by the
shape of well-known tokens. To be wrong costs a warning.
"""

import re
import shlex
from collections.abc import Sequence

from mooring.secrets.references import parse

__all__ = ["is_reference", "looks_secret", "masked", "secret_name", "shown_command", "word_looks_secret"]

_NAME = re.compile(
    r"(?:TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|APIKEYS?|AUTHORIZATION"
    r"|(?<![A-Z0-9])(?:KEYS?|PAT|PASS|CREDENTIALS?))(?![A-Z0-9])"
)
_OF_A_PLACE = re.compile(r"(?:^|[_-])(?:FILE|PATH|DIR|URL|NAME|ID)$")
"""`TOKEN_FILE`, `KEY_ID`: where it is, or which, but not what."""
_SHAPES = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{20,}"
    r"|(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|AIza[0-9A-Za-z_-]{35}"
    r"|(?:npm|hf)_[A-Za-z0-9]{30,}"
    r"|eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?i:\bbearer) [A-Za-z0-9._~+/-]{8,}"
    r"|(?<=://)[^/?#@\s:]*:[^/?#@\s]+(?=@)"  # user and password of an address
)
_HIDDEN = "…"
_OF_AN_OPTION = re.compile(
    r"""(?P<before>--(?P<name>[A-Za-z][\w-]*)(?:=|["']\s*,\s*["']))(?P<value>[^"'\s]+)"""
)
"""The value of an option, in a command line that stands in a document."""


def is_reference(value: str) -> bool:
    """Does it say where the value is?"""
    try:
        return bool(parse(value).references)
    except ValueError:
        return False  # refused elsewhere


def looks_secret(name: str, value: str) -> bool:
    """Of a variable: is its value one that should not stand in a file?"""
    if not value or is_reference(value):
        return False
    return _name_looks_secret(name) or _SHAPES.search(value) is not None


def _name_looks_secret(name: str) -> bool:
    name = name.upper()
    return _NAME.search(name) is not None and not _OF_A_PLACE.search(name)


def word_looks_secret(words: Sequence[str], at: int) -> bool:
    """Of a command line: is this word one?"""
    word, before = words[at], words[at - 1] if at else ""
    if _SHAPES.search(word):
        return True
    name, equals, value = word.partition("=")
    if word.startswith("-") and equals:
        return looks_secret(name.strip("-"), value)
    return before.startswith("--") and not word.startswith("-") and looks_secret(before.strip("-"), word)


def masked(line: str) -> str:
    """A line of any document without what looks like a secret in it."""
    line = _SHAPES.sub(_HIDDEN, line)
    return _OF_AN_OPTION.sub(_of_option, line)


def _of_option(found: re.Match[str]) -> str:
    if not _name_looks_secret(found["name"]):
        return found[0]
    return found["before"] + _HIDDEN


def shown_command(words: Sequence[str]) -> str:
    """A command line as it may be shown."""
    return " ".join(_shown(words, at) for at in range(len(words)))


def _shown(words: Sequence[str], at: int) -> str:
    if not word_looks_secret(words, at):
        return shlex.quote(words[at])
    name, equals, _ = words[at].partition("=")
    return f"{name}={_HIDDEN}" if equals and name.startswith("-") else _HIDDEN


def secret_name(server: str, variable: str) -> str:
    """How a secret might be called that is moved out of the way."""
    return f"{server}-{re.sub('[^a-z0-9]+', '-', variable.lower()).strip('-')}"
