"""Ids of AI clients on a command line, completed by the shell. Whether there is such a one is said later."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["ALL", "NONE", "ClientId", "ClientIds"]

ALL, NONE = "all", "none"


class ClientId(click.ParamType[str]):
    """One of the table."""

    name = "client"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Those that begin so and are not there yet; only those on this machine, if any are."""
        given = ctx.params.get(param.name or "") or ()
        return _completed(incomplete, given)


class ClientIds(click.ParamType[tuple[str, ...]]):
    """Several, with commas between: `cursor,zed`; or `all`, or `none`."""

    name = "clients"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Each once, in their order."""
        if not isinstance(value, str):
            return value
        ids = tuple(dict.fromkeys(word for word in (each.strip() for each in value.split(",")) if word))
        if not ids:
            self.fail("name clients, as in cursor,zed; or all, or none", param, ctx)
        if len(ids) > 1 and {ALL, NONE} & set(ids):
            self.fail(f"{ALL} and {NONE} stand alone", param, ctx)
        return ids

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """The last of them."""
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        words = () if comma else (ALL, NONE)
        return _completed(last, given, words=words, before=before + comma)


def _completed(
    incomplete: str, given: tuple[str, ...] | list[str], *, words: tuple[str, ...] = (), before: str = ""
) -> "list[CompletionItem]":
    import os  # noqa: PLC0415 - heavy from here on; only the shell asks

    from click.shell_completion import CompletionItem  # noqa: PLC0415

    from mooring.clients.detecting import is_installed  # noqa: PLC0415
    from mooring.clients.machine import Machine  # noqa: PLC0415
    from mooring.clients.table import load_table  # noqa: PLC0415

    machine = Machine.this(os.environ)
    table = {
        id: client for id, client in load_table().items() if id.startswith(incomplete) and id not in given
    }
    here = {id: client for id, client in table.items() if is_installed(client, machine)}
    items = [CompletionItem(before + id, help=client.name) for id, client in (here or table).items()]
    return [CompletionItem(word) for word in words if word.startswith(incomplete)] + items
