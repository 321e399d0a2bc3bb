"""Names of servers that exist, as arguments: checked, and completed by the shell."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mooring.cli.values import Parsed, parse_name

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["KNOWN_NAME", "KNOWN_SERVER", "SERVER_ELSEWHERE", "KnownName"]

PATIENCE_S = 1.0
"""For the daemon to say which there are; whoever pressed Tab waits."""


class KnownName(Parsed):
    """Completed with the names that the daemon knows; with nothing if it does not run."""

    def __init__(self, name: str, parse: Callable[[str], Any], *, is_elsewhere: bool = False) -> None:
        """`is_elsewhere`: only of servers that Mooring does not start itself."""
        super().__init__(name, parse)
        self._is_elsewhere = is_elsewhere

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Those that begin so and are not on the command line yet."""
        import os  # noqa: PLC0415 - heavy from here on; only the shell asks

        from click.shell_completion import CompletionItem  # noqa: PLC0415

        from mooring.api.client import ApiClient  # noqa: PLC0415
        from mooring.errors import MooringError  # noqa: PLC0415
        from mooring.host.places import find_places  # noqa: PLC0415

        try:
            client = ApiClient(find_places(os.environ).socket)
            servers = client.ask("GET", "/servers", timeout_s=PATIENCE_S)
        except MooringError:
            return []
        given = ctx.params.get(param.name or "") or ()
        return [
            CompletionItem(server["name"], help=server["state"])
            for server in servers
            if server["name"].startswith(incomplete) and server["name"] not in given
            if server["address"] or not self._is_elsewhere
        ]


KNOWN_NAME = KnownName("name", parse_name)


def parse_server(text: str) -> str:
    """The name of a server, or a URL. No name has a colon, and every URL does."""
    return text if ":" in text else parse_name(text)


KNOWN_SERVER = KnownName("name or url", parse_server)
SERVER_ELSEWHERE = KnownName("name or url", parse_server, is_elsewhere=True)
