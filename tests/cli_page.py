"""`docs/cli.md`: every command with its help, as a terminal of 80 columns shows it.

python -m tests.cli_page --write
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import click

from mooring.cli.main import cli

__all__ = ["PAGE", "WIDTH", "commands", "page", "root"]

PAGE = Path(__file__).parents[1] / "docs/cli.md"
WIDTH = 80
HEAD = """\
# Commands

What `mooring COMMAND --help` says. [For scripts](commands.md) has what is an interface: JSON, exit statuses.

<!-- made by python -m tests.cli_page --write -->
"""


def root() -> click.Context:
    """Of `mooring` itself."""
    settings = {**cli.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    return click.Context(cli, info_name="mooring", **settings)


def commands(parent: click.Context) -> Iterator[click.Context]:
    """All of a group, each after the group it belongs to; hidden ones are left out."""
    group = parent.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(parent):
        command = group.commands[name]
        if command.hidden:
            continue
        context = click.Context(command, parent=parent, info_name=name)
        yield context
        if isinstance(command, click.Group):
            yield from commands(context)


def page() -> str:
    """The page as the commands are now."""
    whole = root()
    return HEAD + "".join(_section(one) for one in (whole, *commands(whole)))


def _section(context: click.Context) -> str:
    help = "\n".join(line.rstrip() for line in context.get_help().splitlines())
    return f"\n## `{context.command_path}`\n\n```text\n{help}\n```\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.cli_page", description=__doc__)
    parser.add_argument("--write", action="store_true", help="bring docs/cli.md up to date")
    if parser.parse_args().write:
        PAGE.write_text(page())
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
