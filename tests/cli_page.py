"""`docs/cli.md`: every command with its help, as a terminal of 80 columns shows it.

python -m tests.cli_page --write
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import click

from mooring.cli.main import cli

__all__ = ["PAGE", "commands", "page"]

PAGE = Path(__file__).parents[1] / "docs/cli.md"
WIDTH = 80
HEAD = """\
# Commands

What `mooring COMMAND --help` says. [For scripts](commands.md) has what is an interface: JSON, exit statuses.

<!-- made by python -m tests.cli_page --write -->
"""


def commands(group: click.Group = cli, parent: click.Context | None = None) -> Iterator[click.Context]:
    """All of them, each after the group it belongs to; hidden ones are left out."""
    for name in group.list_commands(parent or click.Context(group)):
        command = group.commands[name]
        if command.hidden:
            continue
        context = click.Context(
            command, parent=parent, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH
        )
        yield context
        if isinstance(command, click.Group):
            yield from commands(command, context)


def page() -> str:
    """The page as the commands are now."""
    names = cli.context_settings["help_option_names"]
    root = click.Context(
        cli, info_name="mooring", terminal_width=WIDTH, max_content_width=WIDTH, help_option_names=names
    )
    sections = [_section("mooring", root), *(_section(one.command_path, one) for one in commands(cli, root))]
    return HEAD + "".join(sections)


def _section(title: str, context: click.Context) -> str:
    help = "\n".join(line.rstrip() for line in context.get_help().splitlines())
    return f"\n## `{title}`\n\n```text\n{help}\n```\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.cli_page", description=__doc__)
    parser.add_argument("--write", action="store_true", help="bring docs/cli.md up to date")
    if parser.parse_args().write:
        PAGE.write_text(page())
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
