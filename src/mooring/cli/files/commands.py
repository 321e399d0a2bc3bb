"""The commands about a file with many servers."""

import click

from mooring.cli.names import KNOWN_NAME
from mooring.cli.servers.commands import as_json, examples, no_wait

__all__ = ["down", "export", "up"]

# What they do is in `files`, loaded when one runs: `mooring --help` must feel instant.

file = click.option(
    "-f", "--file", type=click.Path(dir_okay=False), metavar="FILE", help="The file.  [default: mooring.toml]"
)
A_FILE = """
\b
A mooring.toml:
  [servers.time]
  from = "uvx:mcp-server-time"

\b
  [servers.files]
  command = "npx -y @modelcontextprotocol/server-filesystem ${HOME}/src"
  idle_timeout = "2h"

\b
  [servers.github]
  image = "ghcr.io/github/github-mcp-server"
  env = { GITHUB_PERSONAL_ACCESS_TOKEN = "secret:github" }
"""
dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")


@click.command(
    short_help="Have the servers that a file names.",
    epilog=examples(
        "mooring up --dry-run",
        "mooring up",
        "mooring up -f ~/.cursor/mcp.json",
        "mooring export --all > mooring.toml",
    )
    + A_FILE,
)
@file
@dry_run
@click.option("--adopt", is_flag=True, help="Take over servers of these names that were made otherwise.")
@no_wait
@as_json
def up(file: str | None, dry_run: bool, adopt: bool, no_wait: bool, as_json: bool) -> int:
    """Make it true what a file says: start what is new, replace what has changed, remove what is gone.

    What is the same is left alone, and so is every server that was not made from this file. The plan is shown
    first; a file with an error is refused whole. One server that fails does not hold up the others.

    The file is mooring.toml, mooring.json or .mcp.json here, or the one named; *.json is read as AI clients
    write it (mcpServers, or servers). docs/configuration.md has all keys.
    """
    from mooring.cli.files import applying  # noqa: PLC0415

    return applying.up(file, dry_run=dry_run, adopt=adopt, wait=not no_wait, as_json=as_json)


@click.command(
    short_help="Forget the servers made from a file.",
    epilog=examples("mooring down", "mooring down --dry-run", "mooring down -f team/mooring.toml"),
)
@file
@dry_run
@no_wait
@as_json
def down(file: str | None, dry_run: bool, no_wait: bool, as_json: bool) -> int:
    """Stop and forget all servers that were made from a file, and no others.

    The file is not read: it may have changed since, or be gone.
    """
    from mooring.cli.files import applying  # noqa: PLC0415

    return applying.down(file, dry_run=dry_run, wait=not no_wait, as_json=as_json)


@click.command(
    short_help="Print servers as a file.",
    epilog=examples(
        "mooring export time",
        "mooring export --all > mooring.toml",
        "mooring export time --json",
        "mooring export --schema > mooring.schema.json",
    ),
)
@click.argument("names", nargs=-1, type=KNOWN_NAME, metavar="NAME...")
@click.option("--all", "every", is_flag=True, help="All servers.")
@click.option("--json", "as_json", is_flag=True, help="As AI clients have it: mcpServers.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of mooring.toml instead, for editors.")
def export(names: tuple[str, ...], every: bool, as_json: bool, schema: bool) -> int:
    """Print the definition of servers as mooring.toml, such that mooring up of it changes nothing.

    A value that looks like a secret is not printed; a reference stands in its place, and what to do about it.
    """
    if schema:
        from mooring.cli.files.schema import json_schema  # noqa: PLC0415

        click.echo(json_schema(), nl=False)
        return 0
    from mooring.cli.files import export as exporting  # noqa: PLC0415

    return exporting.export(names, every=every, json_wanted=as_json)
