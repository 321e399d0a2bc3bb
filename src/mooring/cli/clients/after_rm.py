"""What `mooring rm` says of AI clients. The daemon takes entries out a moment later: that is waited for."""

import time
from collections.abc import Sequence

from mooring.cli.clients.access import find_registry
from mooring.cli.terminal.words import tell
from mooring.clients.entries import what_next
from mooring.errors import MooringError

__all__ = ["Farewell"]

PATIENCE_S = 5.0
LOOK_AGAIN_S = 0.05


class Farewell:
    """Made before the servers are removed: afterwards nobody knows who had them."""

    def __init__(self, servers: Sequence[str]) -> None:
        self._registry = find_registry()
        self._sites = {server: self._registry.sites_with(server) for server in servers}

    def tell(self, removed: Sequence[str]) -> None:
        """Which clients are without them now, and what their users have to do."""
        try:
            self._wait(removed)
        except MooringError as error:
            tell("warning", f"whether AI clients still have it is not known: {error.message}")
            return
        alike: dict[str, list[str]] = {}
        for server in removed:
            left = {site.path for site in self._registry.sites_with(server)}
            for site in self._sites[server]:
                then = what_next(site.client, is_project=site.project is not None, is_removal=True)
                done = f"{server} is taken out; {then}"
                text = f"{server} is still there: see mooring events" if site.path in left else done
                alike.setdefault(text, []).append(site.client.name)
        for text, clients in alike.items():
            tell("note", f"{', '.join(dict.fromkeys(clients))}: {text}")

    def _wait(self, removed: Sequence[str]) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while any(map(self._registry.sites_with, removed)) and time.monotonic() < give_up_at:
            time.sleep(LOOK_AGAIN_S)
