"""What `mooring client ls` shows."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size

import click
import msgspec

from mooring.cli.clients.access import find_registry, tell_of_damage
from mooring.cli.clients.telling import echo_wrapped, shown_path
from mooring.cli.terminal.tables import render
from mooring.cli.terminal.words import RED, YELLOW, colourful, painted
from mooring.clients.outcomes import EntryStanding, Standing

__all__ = ["list_clients", "shortened_names", "shortened_path", "table"]

HEAD = ("CLIENT", "HERE", "SERVERS", "RELOADS", "FILE")
"""`HERE`: is it on this machine? Left out if all are."""
RELOADS = {
    "watch": "by itself",
    "watch_prompt": "asks you",
    "poll": "by itself",
    "command": "on command",
    "session": "new session",
    "restart": "on restart",
    "unknown": "not known",
}
IN_WORDS = {
    "out": "taken out for now",
    "changed": "changed by somebody, and left alone",
    "missing": "not in the file, but should be; mooring client sync puts it back",
    "foreign": "in the file, but not Mooring's",
}
"""Of an entry that does not stand as it should."""
FEWEST = 12
"""Characters that servers and paths get, however narrow the terminal is."""
NONE_HERE = "No AI client is found on this machine. All that Mooring knows: mooring client ls --all"


def list_clients(*, every: bool, project: Path | None, as_json: bool) -> int:
    """`mooring client ls`; returns the exit status."""
    registry = find_registry()
    root = None if project is None else project.absolute()
    standings = registry.standings(project=root, everything=every)
    tell_of_damage(registry)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(standings, enc_hook=str), indent=2))
        return 0
    if not standings:
        click.echo(NONE_HERE)
        return 0
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    colours = colourful(sys.stdout, os.environ)
    for line in table(standings, width=width, colours=colours):
        click.echo(line)
    remarks = [remark for one in standings for remark in _remarks(one)]
    if remarks:
        click.echo()
    for remark in remarks:
        echo_wrapped(remark)
    return 0


def table(standings: Sequence[Standing], *, width: int | None, colours: bool) -> list[str]:
    """A row for each file, no wider than that: names of servers that do not fit are counted, paths cut."""
    names_room, path_room = _rooms(standings, width)
    rows = [
        (
            *_first(one),
            shortened_names(_names(one), names_room),
            _reload(one),
            shortened_path(_path(one), path_room),
        )
        for one in standings
    ]
    if all(one.installed for one in standings):
        head, *lines = render(_without_here(HEAD), map(_without_here, rows))
    else:
        head, *lines = render(HEAD, rows)
    paints = [_colour(one) if colours else "" for one in standings]
    return [head, *(painted(line, paint) for line, paint in zip(lines, paints, strict=True))]


def _without_here(row: Sequence[str]) -> Sequence[str]:
    return (row[0], *row[2:])


def _first(one: Standing) -> tuple[str, str]:
    return one.client, "yes" if one.installed else "-"


def _reload(one: Standing) -> str:
    return RELOADS.get(one.reload, one.reload)


def _rooms(standings: Sequence[Standing], width: int | None) -> tuple[int | None, int | None]:
    """For the names of servers, and for paths; None: as much as they need."""
    if width is None:
        return None, None
    others = [(*_first(one), _reload(one)) for one in standings]
    room = width - max(map(len, render((*HEAD[:2], "RELOADS"), others))) - 4
    if all(one.installed for one in standings):
        room += len("HERE") + 2
    names = max(len("SERVERS"), *(len(", ".join(_names(one))) for one in standings))
    paths = max(len("FILE"), *(len(_path(one)) for one in standings))
    if names + paths <= room:
        return None, None
    for_names = max(min(names, room - paths), min(names, room // 2), FEWEST)
    return for_names, max(room - for_names, FEWEST)


def _names(one: Standing) -> list[str]:
    if one.trouble and one.path is not None:
        return ["?"]
    names = [_marked(entry) for entry in one.entries if entry.state != "foreign"]
    if one.follows_all:
        return [f"all: {names[0]}", *names[1:]] if names else ["all"]
    return names or ["-"]


def _marked(entry: EntryStanding) -> str:
    return entry.server if entry.state == "in" else f"{entry.server} ({entry.state})"


def _path(one: Standing) -> str:
    return shown_path(one.path) if one.path is not None else "-"


def _colour(one: Standing) -> str:
    if one.trouble and one.path is not None:
        return RED
    return YELLOW if any(entry.state not in ("in", "foreign") for entry in one.entries) else ""


def shortened_names(names: Sequence[str], room: int | None) -> str:
    """As many as there is room for, and how many more there are."""
    whole = ", ".join(names)
    if room is None or len(whole) <= room:
        return whole
    for kept in range(len(names) - 1, 0, -1):
        text = f"{', '.join(names[:kept])}, +{len(names) - kept}"
        if len(text) <= room:
            return text
    return f"{names[0][: room - 1]}…" if len(names) == 1 else f"{names[0][: room - 6]}… +{len(names) - 1}"


def shortened_path(path: str, room: int | None) -> str:
    """Without as many of its middle parts as it takes."""
    if room is None or len(path) <= room:
        return path
    first, *parts = path.split("/")
    for dropped in range(1, len(parts)):
        for kept in range(len(parts) - dropped - 1, -1, -1):
            text = "/".join([first, *parts[:kept], "…", *parts[kept + dropped :]])
            if len(text) <= room:
                return text
    return f"…{path[1 - room :]}"


def _remarks(one: Standing) -> Iterator[str]:
    """What a row has no room for."""
    if one.trouble and one.path is None:
        yield f"{one.client}: {one.trouble}"
    elif one.trouble:
        yield f"{one.client}: {shown_path(one.path or '')} cannot be read: {one.trouble}"
    alike: dict[tuple[str, str], list[str]] = {}
    for entry in one.entries:
        if entry.state in IN_WORDS:
            alike.setdefault((entry.state, entry.why), []).append(entry.server)
    for (state, why), servers in alike.items():
        reason = f": {why}" if why else ""
        yield f"{one.client}: {', '.join(servers)}: {IN_WORDS[state]}{reason}"
