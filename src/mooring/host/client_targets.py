"""Where a server of the daemon is, as clients' files say it: the same for commands and for the daemon."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from mooring.clients.entries import Target
from mooring.clients.program import own_command
from mooring.host.places import DEFAULT_PORT, Places, find_places

__all__ = ["target_at"]


def target_at(places: Places, name: str, url: str, environment: Mapping[str, str]) -> Target:
    """`url` is where the daemon serves it."""
    return Target(name, url, (*own_command(environment), "stdio", name), _settings(places, url))


def _settings(places: Places, url: str) -> dict[str, str]:
    """What the environment of a program must say so that it reaches, or starts, the same daemon.

    Not what ours says: a client is started from elsewhere, and has none of it.
    """
    port = urlsplit(url).port
    is_elsewhere, is_odd = places.state != find_places({}).state, port not in (None, DEFAULT_PORT)
    state = {"MOORING_STATE_DIR": str(places.state)} if is_elsewhere else {}
    return state | ({"MOORING_PORT": str(port)} if is_odd else {})
