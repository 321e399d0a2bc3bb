"""Values as people write them: names of objects, labels, what pods may reach.

Each parser takes text and raises `ValueError` with a sentence for people, as in `cli.values`.
"""

import ipaddress
import re

from mooring.cli.values import parse_duration, parse_port_of_container
from mooring.kubernetes.network import INTERNET
from mooring.kubernetes.quantities import parse_quantity
from mooring.kubernetes.release import Exit, SecretKey
from mooring.secrets.references import is_secret_name

__all__ = [
    "parse_bounded",
    "parse_egress",
    "parse_host",
    "parse_labels",
    "parse_namespace",
    "parse_object_name",
    "parse_scratch",
    "parse_secret_place",
    "parse_uid",
]

VALUE_KEY = "value"
"""Of a Secret, unless another is named."""
HIGHEST_UID = 2**31 - 1

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_OBJECT = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_KEY_OF_SECRET = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,252}")
_VALUE_OF_LABEL = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_KEY_OF_LABEL = re.compile(rf"(?:{_OBJECT.pattern}/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?")
_HOST = re.compile(r"\*|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?")


def parse_namespace(text: str) -> str:
    """The name of a namespace."""
    if not _NAMESPACE.fullmatch(text):
        raise ValueError(f"{text!r} is no namespace; use up to 63 of a-z, 0-9 and '-'")
    return text


def parse_object_name(text: str) -> str:
    """The name of a Secret."""
    if not _OBJECT.fullmatch(text) or len(text) > 253:
        raise ValueError(f"{text!r} cannot be the name of a Secret; use a-z, 0-9, '-' and '.'")
    return text


def parse_secret_place(text: str) -> tuple[str, SecretKey]:
    """`NAME=SECRET[/KEY]`: where in the cluster the value is that is called `secret:NAME` here."""
    name, equals, place = text.partition("=")
    secret, slash, key = place.partition("/")
    if not equals or not is_secret_name(name):
        raise ValueError("write NAME=SECRET or NAME=SECRET/KEY; NAME is what follows secret: in a value")
    if slash and not _KEY_OF_SECRET.fullmatch(key):
        raise ValueError(f"{key!r} cannot be a key of a Secret; use letters, digits, '.', '_' and '-'")
    return name, SecretKey(parse_object_name(secret), key or VALUE_KEY)


def parse_labels(text: str) -> tuple[tuple[str, str], ...]:
    """`app=web,tier=front`."""
    labels = [part.partition("=") for part in text.split(",")]
    for key, equals, value in labels:
        if not equals or not _KEY_OF_LABEL.fullmatch(key) or not _VALUE_OF_LABEL.fullmatch(value):
            raise ValueError(f"{text!r} are no labels; write app=web or app=web,tier=front")
    return tuple((key, value) for key, _, value in labels)


def parse_host(text: str) -> str:
    """A name for the Host header, as `mooring run --allow-host` has it."""
    if not _HOST.fullmatch(text):
        raise ValueError(f"{text!r} is no name of a host; write mcp.example.com, without https://")
    return text


def parse_egress(text: str) -> tuple[Exit, ...] | None:
    """What may be reached: `internet`, `any`, PORT, or NETWORK[:PORT]; `none` is nothing."""
    if text == "none":
        return None
    if text == "internet":
        return INTERNET
    if text == "any":
        return (Exit(),)
    if text.isdecimal():
        return (Exit(port=parse_port_of_container(text)),)
    address, slash, rest = text.partition("/")
    bits, colon, port = rest.partition(":")
    try:
        network = ipaddress.ip_network(f"{address}/{bits}" if slash else "")
    except ValueError:
        raise ValueError(
            f"{text!r} is nothing that can be reached; "
            "write internet, any, none, 5432, 10.1.0.0/16 or 10.1.0.0/16:5432"
        ) from None
    return (Exit(str(network), parse_port_of_container(port) if colon else None),)


def parse_scratch(text: str) -> str:
    """An amount of memory or disk."""
    parse_quantity(text)
    return text


def parse_uid(text: str) -> int:
    """A user who is not root."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= HIGHEST_UID:
        raise ValueError(f"{text!r} is no user; give a number from 1 to {HIGHEST_UID}: root is not allowed")
    return int(text)


def parse_bounded(text: str) -> float:
    """A span of time that ends."""
    if text.strip().lower() == "none":
        raise ValueError("'none' is no time: a pod is killed when its grace period is over, so give one")
    return parse_duration(text)
