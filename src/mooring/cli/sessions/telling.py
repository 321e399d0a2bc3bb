"""Sessions in words, and as values for programs. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mooring.cli.terminal.tables import age
from mooring.cli.terminal.words import printable
from mooring.errors import RemoteProtocolError
from mooring.replicas.inspecting import Details, Owner, Seen
from mooring.wire.memory import Memory

__all__ = ["EXPENDABLE", "HEAD", "as_values", "described", "detailed", "introduction", "row", "shown_uri"]

HEAD = ("SERVER", "ID", "PRINCIPAL", "CLIENT", "REVISION", "OWNER", "OPENED", "IDLE")
EXPENDABLE = ("REVISION", "OPENED", "CLIENT", "PRINCIPAL")
"""Columns that a narrow terminal does without, the first one first."""
MOST_CHARACTERS = 32
"""Of what others have named: one of them would make all columns wide."""
OF_A_CLIENT = ("name", "title", "version")


def row(seen: Seen, *, long: bool) -> tuple[str, ...]:
    """In a table."""
    record = seen.place.record
    return (
        seen.server,
        seen.id if long else seen.short_id,
        _short(record.principal),
        _short(record.client),
        _revision(seen.memory),
        owner_in_short(seen.owner, long=long),
        age(record.created_at),
        age(seen.place.used_at),
    )


def owner_in_short(owner: Owner, *, long: bool) -> str:
    """Who it is, and whether it lives."""
    if not owner.name:
        return "-"
    return printable(owner.name if long else owner.shown) + ("" if owner.is_alive else " (gone)")


def as_values(seen: Seen, now: float, *, long: bool) -> dict[str, Any]:
    """One line of `ls --json`."""
    owner, record = seen.owner, seen.place.record
    return {
        "server": seen.server,
        "id": seen.id if long else seen.short_id,
        "principal": record.principal,
        "client": record.client,
        "revision": _revision(seen.memory, ""),
        "owner": owner.name or None,
        "host": owner.host or None,
        "alive": owner.is_alive,
        "opened_at": round(record.created_at, 3),
        "used_at": seen.place.used_at,
        "idle_s": round(max(0.0, now - seen.place.used_at), 3),
    }


def detailed(seen: Seen, details: Details, now: float, *, long: bool) -> dict[str, Any]:
    """What `show --json` prints."""
    replica, record, memory = seen.owner.replica, seen.place.record, seen.memory
    return {
        **as_values(seen, now, long=long),
        "address": replica.address if replica is not None else None,
        "version": replica.version if replica is not None else None,
        "fence": seen.place.fence,
        "transport": record.transport,
        "log_level": (memory.level if memory is not None else "") or None,
        "subscriptions": [shown_uri(uri) for uri in memory.subscribed] if memory is not None else [],
        "initialize": introduction(memory),
        "upstream": shown_uri(record.backend) or None,
        "questions": len(record.asked.open),
        "waiting": len(record.backlog),
        "expires_in_s": details.expires_in_s,
        "streams": [
            {
                "name": stream.name,
                "events": stream.events,
                "finished": stream.is_finished,
                "expires_in_s": stream.expires_in_s,
            }
            for stream in details.streams
        ],
    }


def described(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The same for people: titles, and what stands beside each."""
    yield "server", about["server"]
    yield "id", about["id"]
    yield "principal", about["principal"]
    yield "client", about["client"] or "-"
    yield "owner", _owner(about)
    yield "address", about["address"] or "-"
    yield "fence", str(about["fence"])
    yield "opened", f"{age(about['opened_at'])} ago"
    yield "idle", f"{age(about['used_at'])}; forgotten if it stays so for {_span(about['expires_in_s'])}"
    yield "revision", about["revision"] or "-"
    yield "transport", about["transport"]
    if about["upstream"]:
        yield "upstream", about["upstream"]
    yield "log level", about["log_level"] or "-"
    yield from _list("subscribed", about["subscriptions"])
    yield "initialize", json.dumps(about["initialize"], ensure_ascii=False)
    if about["questions"]:
        yield "questions", f"{about['questions']} that its client may answer"
    if about["waiting"]:
        yield "waiting", f"{about['waiting']} messages for the next stream"
    yield from _list("streams", [_stream(stream) for stream in about["streams"]])


def introduction(memory: Memory | None) -> dict[str, Any]:
    """What a client has said of itself in `initialize`: what the protocol names, and of all else the names.

    Anything may stand elsewhere, a token too.
    """
    try:
        said = msgspec.json.decode(memory.introduction) if memory is not None else None
    except (msgspec.DecodeError, RemoteProtocolError):
        said = None
    if not isinstance(said, dict):
        return {}
    client, capabilities = said.get("clientInfo"), said.get("capabilities")
    shown: dict[str, Any] = {}
    if isinstance(version := said.get("protocolVersion"), str):
        shown["protocolVersion"] = version
    if isinstance(client, dict):
        shown["clientInfo"] = {
            name: client[name] for name in OF_A_CLIENT if isinstance(client.get(name), str)
        }
    if isinstance(capabilities, dict):
        shown["capabilities"] = {
            name: {key: value if isinstance(value, bool) else {} for key, value in members.items()}
            for name, members in capabilities.items()
            if isinstance(members, dict)
        }
    return shown


def shown_uri(uri: str) -> str:
    """Without what may hold a secret: a password, a query, a fragment."""
    scheme, separator, rest = uri.partition("://")
    if separator:
        host, slash, path = rest.partition("/")
        uri = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    cut = min((at for at in (uri.find("?"), uri.find("#")) if at >= 0), default=None)
    return uri if cut is None else f"{uri[:cut]}{uri[cut]}…"


def _owner(about: Mapping[str, Any]) -> str:
    if not about["owner"]:
        return "nobody: whichever replica is asked for it next"
    version = f", Mooring {about['version']}" if about["version"] else ""
    lives = "alive" if about["alive"] else "gone: whichever replica is asked for it next takes it over"
    return f"{about['host']} ({about['owner']}{version}), {lives}"


def _stream(stream: Mapping[str, Any]) -> str:
    ended = "finished" if stream["finished"] else "open"
    left = _span(stream["expires_in_s"])
    return f"{stream['name']}: {stream['events']} events, {ended}, kept for {left}"


def _span(seconds: float) -> str:
    """What is left, in the largest unit that fits, to the nearest: a week less a moment is 7d."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if (count := round(max(0.0, seconds) / length)) > 1 or seconds >= length:
            return f"{count}{unit}"
    return f"{round(max(0.0, seconds))}s"


def _list(title: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    for n, line in enumerate(lines or ["-"]):
        yield title if not n else "", line


def _revision(memory: Memory | None, unknown: str = "-") -> str:
    handshake = memory.handshake if memory is not None else None
    return printable(handshake.protocol_version) if handshake is not None else unknown


def _short(text: str) -> str:
    shown = printable(text)
    return (shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 1]}…") or "-"
