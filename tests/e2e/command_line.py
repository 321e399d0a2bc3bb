"""Command lines as our own parser reads them, without running anything."""

from collections.abc import Sequence

import click

from mooring.cli.main import cli

__all__ = ["parse", "parse_run"]


def parse_run(words: Sequence[str]) -> click.Context:
    """`mooring run …`: its options are in `params`, the server's command in `obj`; or a usage error."""
    assert words[1] == "run"
    # With its parent as in real life: a command remembers the help options of its first context.
    parent = click.Context(cli, **cli.context_settings)
    return cli.commands["run"].make_context("run", list(words[2:]), parent=parent)


def parse(words: Sequence[str]) -> click.Context:
    """Any command, from `mooring` on: its options are in `params`; or a usage error."""
    context, command, rest = click.Context(cli, **cli.context_settings), cli.commands[words[1]], [*words[1:]]
    while True:
        name = rest.pop(0)
        if not isinstance(command, click.Group) or not rest or rest[0] not in command.commands:
            return command.make_context(name, rest, parent=context)
        context = click.Context(command, parent=context, info_name=name)
        command = command.commands[rest[0]]
