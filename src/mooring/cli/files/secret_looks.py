"""Texts that look like secrets: to be warned about in a file, and not to be printed. Pure.

A reference says where a secret is, and is none. All of this guesses: by the name of a variable, or by the
shape of well-known tokens. To be wrong costs a warning.
"""

import re
import shlex
from collections.abc import Sequence

from mooring.secrets.references import parse

__all__ = [
    "header_looks_secret",
    "is_reference",
    "looks_secret",
    "masked",
    "names_a_place",
    "secret_name",
    "shown_command",
    "value_looks_secret",
    "word_looks_secret",
]

_NAME = re.compile(
    r"(?:TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|APIKEYS?|ACCESSKEYS?|AUTHORIZATION"
    r"|(?<![A-Z0-9])(?:KEYS?|PAT|PASS|PW|CREDENTIALS?)|(?<=[A-Z0-9][_-])PWD)(?![A-Z0-9])"
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
    r"|eyJ[A-Za-z0-9_-]{1,999}\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?i:\bbearer) [A-Za-z0-9._~+/-]{8,}"
    r"|(?i:\bbasic) (?=[a-z]*[A-Z0-9+/=])[A-Za-z0-9+/]{6,}={0,2}"
    r"|(?<=hooks\.slack\.com/)[a-z]+/[A-Za-z0-9/_-]{8,}"
    r"|(?<=discord\.com/api/webhooks/)[0-9]+/[\w-]{8,}"
    r"|(?<=://)[^/?#@\s:]*:[^/?#@\s]+(?=@)"  # user and password of an address
)
_HIDDEN = "…"
_OF_AN_OPTION = re.compile(
    r"""(?P<before>(?<![\w-])--(?P<name>[A-Za-z][\w-]*)(?:=|["']\s*,\s*["']))(?P<value>[^"'\s]+)"""
)
"""The value of an option, in a command line that stands in a document."""
_ASSIGNED = re.compile(
    r"""(?P<before>(?:(?:^|[?&;,\s{"'])(?:-D|-{1,2})?(?P<name>[A-Za-z][\w.-]*)\s?=\s?["']?"""
    r"""|["'](?P<quoted>[A-Za-z][\w.-]*)["']\s*:\s*["']))"""
    r"""(?P<value>(?<=")[^"]+|(?<=')[^']+|[^"'\s;&#]+)"""
)
"""`Password=…;` in a text, `?api_key=…` in an address, `"password": "…"` in JSON."""
_NO_SECRET = re.compile(r"(?:[0-9.]+|true|false|yes|no|null|none)[,}\])]*", re.IGNORECASE)
_HEADER = re.compile(r"(?P<name>[A-Za-z][\w-]*):\s*(?P<value>[^/\s].*)")
_OF_HEADERS = re.compile(r"-H|--?[a-z-]*headers?", re.IGNORECASE)
_ALWAYS_A_HEADER = re.compile(r"X-.*|(?:PROXY-)?AUTHORIZATION|(?:SET-)?COOKIE", re.IGNORECASE)
_NAME_OF_VALUE = re.compile(r"-{0,2}[A-Za-z_][\w.-]*")


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
    return _name_looks_secret(name) or masked(value) != value


def _name_looks_secret(name: str) -> bool:
    return _NAME.search(name.upper()) is not None and not names_a_place(name)


def names_a_place(name: str) -> bool:
    """Of a variable: does it say where something is, or which, rather than what?"""
    return _OF_A_PLACE.search(name.upper()) is not None


def word_looks_secret(words: Sequence[str], at: int) -> bool:
    """Of a command line: is this word one, or has it one in it?"""
    word, before = words[at], words[at - 1] if at else ""
    if masked(word) != word or _is_value_of(before, word):
        return True
    if (header := _HEADER.fullmatch(word)) is not None and not is_reference(word):
        is_header = _OF_HEADERS.fullmatch(before) or _ALWAYS_A_HEADER.fullmatch(header["name"])
        return is_header is not None and header_looks_secret(header["name"])
    name, equals, value = word.partition("=")
    if not equals or not _NAME_OF_VALUE.fullmatch(name):
        return False
    return looks_secret(name.strip("-"), value) or (name[0] == "-" and word_looks_secret([name, value], 1))


def header_looks_secret(name: str) -> bool:
    """Of a header: is its value one that should not be seen?"""
    return _name_looks_secret(name) or "COOKIE" in name.upper() or "AUTH" in name.upper()


def value_looks_secret(header: str, value: str) -> bool:
    """Of a header: is this value one that should not stand in a file?"""
    if not value or is_reference(value):
        return False
    return header_looks_secret(header) or masked(value) != value


def _is_value_of(before: str, word: str) -> bool:
    """Does an option come before it that takes a secret? One with a `=` has its value already."""
    if not re.fullmatch(r"--?[A-Za-z][\w.-]+", before) or re.fullmatch(r"--.*|-[A-Za-z]?", word):
        return False
    is_password = before.strip("-").lower() == "pwd" and not word.startswith(("/", ".", "~"))
    return is_password or looks_secret(before.strip("-"), word)


def masked(line: str) -> str:
    """A line of any document without what looks like a secret in it."""
    line = _SHAPES.sub(_HIDDEN, line)
    return _ASSIGNED.sub(_of_option, _OF_AN_OPTION.sub(_of_option, line))


def _of_option(found: re.Match[str]) -> str:
    groups = found.groupdict()
    name, value = groups["name"] or groups["quoted"], found["value"]
    is_plain = _NO_SECRET.fullmatch(value) and not re.search("pass|pwd", name, re.IGNORECASE)
    if not _name_looks_secret(name) or is_plain or is_reference(value.strip("{}")):
        return found[0]
    return found["before"] + _HIDDEN


def shown_command(words: Sequence[str]) -> str:
    """A command line as it may be shown."""
    return " ".join(_shown(words, at) for at in range(len(words)))


def _shown(words: Sequence[str], at: int) -> str:
    """As much of a word as is none, so that one sees what is run."""
    word, before = words[at], words[at - 1] if at else ""
    if not word_looks_secret(words, at):
        return shlex.quote(word)
    if _is_value_of(before, word):
        return _HIDDEN
    if header := _HEADER.fullmatch(word):
        return f"'{header['name']}: {_HIDDEN}'" if header_looks_secret(header["name"]) else _HIDDEN
    name, equals, _ = word.partition("=")
    without = masked(word)
    if equals and _NAME_OF_VALUE.fullmatch(name) and (without == word or _name_looks_secret(name)):
        return f"{name}={_HIDDEN}"
    return without if re.fullmatch(r"[\w@%+=:,./…-]+", without) else f"'{without}'"


def secret_name(server: str, variable: str) -> str:
    """How a secret might be called that is moved out of the way."""
    return f"{server}-{re.sub('[^a-z0-9]+', '-', variable.lower()).strip('-')}"
