"""Values as people write them: spans of time, sizes, K=V pairs, names, what containers are made of.

Each parser takes text and raises `ValueError` with a sentence for people; `Parsed` makes
a click type of it. No parser repeats a value that may be a secret.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mooring.errors import UserError

if TYPE_CHECKING:
    from mooring.runtimes.containers.spec import Volume

__all__ = [
    "ENGINES",
    "RESERVED_NAMES",
    "Parsed",
    "Word",
    "is_kept_by_engine",
    "parse_address",
    "parse_assignment",
    "parse_count",
    "parse_cpus",
    "parse_duration",
    "parse_engine",
    "parse_header",
    "parse_header_source",
    "parse_image",
    "parse_limit",
    "parse_listen",
    "parse_memory",
    "parse_name",
    "parse_path",
    "parse_port",
    "parse_port_of_container",
    "parse_size",
    "parse_user",
    "parse_variable",
    "parse_volume",
    "parse_word",
]

DURATION_UNITS_S = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600, "d": 86400}
SIZE_UNITS = {"": 1, "b": 1}
SIZE_UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9}
SIZE_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30}
LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES = 6 * 2**20, 10**15 - 1
"""Of a container: engines refuse less; no machine has more, and it can be written as plain bytes."""
CPUS_FLOOR = 0.01
ENGINES = ("auto", "docker", "podman")
RESERVED_NAMES = frozenset({"api", "mcp", "sse", "messages", "ws", "livez", "readyz", "metrics", "static"})

# Digits are spelled out because \d also means those of other scripts.
_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))? ?([A-Za-z]*)")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,15}")
_DECIMAL = re.compile(r"[0-9]{1,6}(\.[0-9]{1,20})?")
# What begins with a dash would be an option, were it ever typed.
_USER = re.compile(r"[^\s:-][^\s:]*(:[^\s:-][^\s:]*)?")
_VOLUME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def parse_duration(text: str) -> float:
    """Seconds of `30m`, `500ms`, `1.5s`, `2h`, `1d`, or a plain number of seconds."""
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if match is None or match[3].lower() not in DURATION_UNITS_S:
        raise ValueError(f"{text!r} is not a span of time; write 500ms, 1.5s, 30m, 2h or plain seconds")
    return float(f"{match[1]}.{match[2] or 0}") * DURATION_UNITS_S[match[3].lower()]


def parse_limit(text: str) -> float | None:
    """The same, or `none` for no limit."""
    return None if text.strip().lower() == "none" else parse_duration(text)


def parse_size(text: str) -> int:
    """Bytes of `64MiB`, `10MB`, `1.5KiB` (rounded down), or a plain number of bytes."""
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if match is None or match[3].lower() not in SIZE_UNITS:
        raise ValueError(f"{text!r} is not a size; write 64MiB, 10MB or plain bytes")
    fraction = match[2] or ""
    return int(int(match[1] + fraction) * SIZE_UNITS[match[3].lower()] // 10 ** len(fraction))


def parse_port(text: str) -> int:
    """A TCP port; 0 asks for a free one."""
    if not _WHOLE_NUMBER.fullmatch(text) or int(text) > 65535:
        raise ValueError(f"{text!r} is not a port: give a number from 0 to 65535")
    return int(text)


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8080`, `[::1]:8080`, or `:443` for every address."""
    host, colon, port = text.rpartition(":")
    if not colon or not port or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise ValueError(f"{text!r} is no address to listen on; write 127.0.0.1:8080, [::1]:8080 or :443")
    return host.strip("[]") or "::", parse_port(port)


def parse_port_of_container(text: str) -> int:
    """A TCP port that somebody listens on."""
    port = parse_port(text)
    if not port:
        raise ValueError(f"{text!r} is not a port that a program listens on: give a number from 1 to 65535")
    return port


def parse_path(text: str) -> str:
    """Of a URL, from its first slash on."""
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or set(" #") & set(text):
        raise ValueError(f"{text!r} is not the path of a URL; write /mcp, for example")
    return text


def parse_count(text: str, *, least: int = 0) -> int:
    """How many of something."""
    if not _WHOLE_NUMBER.fullmatch(text) or int(text) < least:
        raise ValueError(f"{text!r} is not a count: give a whole number from {least} on")
    return int(text)


def parse_assignment(text: str) -> tuple[str, str]:
    """`K=V`; the value may be empty and may have more equal signs."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError("write NAME=VALUE (to pass on a variable of your own, use --pass-env NAME)")
    if "\0" in value:
        raise ValueError(f"the value of {name} has a NUL character, which no environment can hold")
    return parse_variable(name), value


def parse_header_source(text: str) -> tuple[str, str]:
    """`HEADER=VARIABLE`: which variable holds the value of a header."""
    name, equals, variable = text.partition("=")
    if not equals or not name:
        raise ValueError("write NAME=VARIABLE; the value itself stands in the environment")
    if not variable.isidentifier():
        # It may be the value, which nobody should read in a log.
        raise ValueError(f"{name}: what follows '=' is the name of an environment variable, not a value")
    return name, variable


def parse_header(text: str) -> tuple[str, str]:
    """`NAME: VALUE`; the value may name where it is."""
    # Whoever names no server elsewhere needs nothing of them.
    from mooring.remote.options import may_be_set, may_be_value  # noqa: PLC0415

    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise ValueError("write 'NAME: VALUE', as in 'Authorization: Bearer {secret:NAME}'")
    name, value = name.strip(), value.strip()
    if not may_be_set(name):
        raise ValueError(f"{name!r} is no header, or one that Mooring itself has to set")
    if not value or not may_be_value(value):
        what = "characters that no header may have" if value else "no value"
        raise ValueError(f"the header {name} has {what}")
    return name, value


def parse_address(text: str) -> str:
    """The URL of a server. `literal:` before it stays: it says what the URL is not."""
    from mooring.http.origin import parse_url  # noqa: PLC0415

    try:
        parse_url(text.removeprefix("literal:"))
    except UserError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    return text


def parse_variable(text: str) -> str:
    """The name of an environment variable."""
    if not text or "=" in text or "\0" in text:
        raise ValueError("the name of a variable is not empty and has no '=' and no NUL character")
    return text


Word = tuple[str, str, bool]
"""An argument: its key, its text, and whether the text is JSON."""


def parse_word(text: str) -> Word:
    """`key=value`, or `key:=JSON`."""
    key, equals, value = text.partition("=")
    is_json = key.endswith(":")
    key = key.removesuffix(":")
    if not equals or not key:
        raise ValueError(f"{text!r} is no argument; write key=value, or key:=JSON")
    return key, value, is_json


def parse_name(text: str) -> str:
    """The name of a workload."""
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} cannot be a name; use 1 to 40 of a-z, 0-9 and '-', with no '-' at either end"
        )
    if text in RESERVED_NAMES:
        raise ValueError(f"{text!r} is part of Mooring's own URLs; choose another name")
    return text


def parse_image(text: str) -> str:
    """The name of an image, or its id."""
    # Whoever names no image needs nothing of containers.
    from mooring.runtimes.containers.spec import image_name  # noqa: PLC0415

    try:
        image_name(text)
    except UserError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    return text


def parse_volume(text: str) -> "Volume":
    """`SOURCE:/TARGET[:ro]`; a relative source stays one: who reads it knows where it begins."""
    from mooring.runtimes.containers.spec import Volume  # noqa: PLC0415

    if not _is_a_line(text):
        raise ValueError(f"{text!r} is no volume: no folder has a NUL character or a line break in its name")
    try:
        volume = Volume.parse(text)
    except UserError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    if not volume.target.strip("/"):
        raise ValueError(f"{text!r} would hide all of the image; write SOURCE:/TARGET")
    if is_kept_by_engine(volume) and not _VOLUME_NAME.fullmatch(volume.source):
        raise ValueError(
            f"{volume.source!r} cannot be the name of a volume; a folder is written ./FOLDER or /FOLDER, "
            "a volume of the engine with A-Z, a-z, 0-9, '_', '.' and '-'"
        )
    return volume


def is_kept_by_engine(volume: "Volume") -> bool:
    """Is its source the name of something that the engine keeps, and no folder?"""
    return "/" not in volume.source and not volume.source.startswith((".", "~"))


def parse_memory(text: str) -> int:
    """Bytes that a container may take."""
    # As the engines' own commands take it, too: 512m, 1g.
    size = parse_size(f"{text}ib" if text[-1:].lower() in ("k", "m", "g") else text)
    if not LEAST_MEMORY_BYTES <= size <= MOST_MEMORY_BYTES:
        raise ValueError(
            f"{text!r} is not what a container can have: give 6MiB or more, and no more than machines have"
        )
    return size


def parse_cpus(text: str) -> float:
    """How many processors: `2`, or `1.5`."""
    if not _DECIMAL.fullmatch(text) or float(text) < CPUS_FLOOR:
        raise ValueError(f"{text!r} is no number of processors: give 2 or 1.5, and at least {CPUS_FLOOR}")
    return float(text)


def parse_user(text: str) -> str:
    """`USER[:GROUP]`, which only the image knows."""
    if not _is_a_line(text) or not _USER.fullmatch(text):
        raise ValueError(f"{text!r} is no user; write USER or USER:GROUP, by name or by number")
    return text


def parse_engine(text: str) -> str:
    """One of `ENGINES`, or where the socket of one is."""
    # A word alone is a slip of the pen, and would be looked for as a file.
    if text not in ENGINES and ("/" not in text.removeprefix("unix://") or not _is_a_line(text)):
        raise ValueError(
            f"{text!r} is no engine; write auto, docker, podman, or its socket: /var/run/docker.sock"
        )
    return text


def _is_a_line(text: str) -> bool:
    """Is there something, and nothing in it that ends a line or a text?"""
    return bool(text) and not any(end in text for end in "\0\r\n")


class Parsed(click.ParamType[Any]):
    """A click type from a parser."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; click's own usage error if it cannot be parsed."""
        if not isinstance(value, str):
            return value  # click converts defaults too, and these may be parsed already
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
