"""What an answer says about how to log in: `WWW-Authenticate`, RFC 9110 §11.6.1. Pure.

    Bearer resource_metadata="https://…", scope="files:read", Basic realm="x"

Several may stand in one field, and a comma separates both challenges and their parameters. Whatever
is not understood ends the reading: what came before it counts.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from mooring.oauth.bounds import MAX_TEXT_CHARACTERS, MOST_CHALLENGES, MOST_SCOPES

__all__ = ["NO_CHALLENGE", "Bearer", "Challenge", "bearer_of", "parse", "split_scopes"]

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - of HTTP's grammar
_SEPARATOR = re.compile(r"[ \t,]*")
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]++|(?=,)|$)(?!=)")
_PARAMETER = re.compile(rf'({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))[ \t]*(?=,|$)')
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*[ \t]*(?=,|$)")
_ESCAPED = re.compile(r"\\(.)")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""RFC 6749 §3.3."""


class Challenge(NamedTuple):
    """One way to authenticate; names are lower case."""

    scheme: str
    parameters: dict[str, str]


class Bearer(NamedTuple):
    """What matters of a challenge to present a token."""

    resource_metadata: str | None = None
    scopes: tuple[str, ...] = ()
    error: str | None = None


NO_CHALLENGE = Bearer()


def parse(field: str) -> list[Challenge]:
    """The challenges of one field, as far as it can be understood."""
    found: list[Challenge] = []
    field = field[:MAX_TEXT_CHARACTERS]
    at = 0
    while len(found) < MOST_CHALLENGES and (match := _SCHEME.match(field, _after(_SEPARATOR, field, at))):
        challenge = Challenge(match[1].lower(), {})
        found.append(challenge)
        at = match.end()
        if (blob := _TOKEN68.match(field, at)) and not _PARAMETER.match(field, at):
            at = blob.end()
            continue
        while parameter := _PARAMETER.match(field, _after(_SEPARATOR, field, at)):
            name, quoted, plain = parameter.groups()
            challenge.parameters.setdefault(
                name.lower(), plain if quoted is None else _ESCAPED.sub(r"\1", quoted)
            )
            at = parameter.end()
    return found


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def bearer_of(fields: Iterable[bytes]) -> Bearer:
    """The first challenge for a bearer token in those fields."""
    for field in list(fields)[:MOST_CHALLENGES]:
        for scheme, parameters in parse(field.decode("latin-1")):
            if scheme == "bearer":
                return Bearer(
                    parameters.get("resource_metadata"),
                    split_scopes(parameters.get("scope", "")),
                    parameters.get("error"),
                )
    return NO_CHALLENGE


def split_scopes(text: str) -> tuple[str, ...]:
    """Scopes in one text, each once; what can be none is left out."""
    return tuple(dict.fromkeys(filter(_SCOPE.fullmatch, text.split(" "))))[:MOST_SCOPES]
