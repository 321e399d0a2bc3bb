"""`mooring client`: which AI clients know of which servers."""

from pathlib import Path

import click

from mooring.cli.clients.ids import ClientId
from mooring.cli.names import KNOWN_NAME
from mooring.cli.servers.commands import as_json, examples

__all__ = ["client"]

# What the commands do is in the other modules, loaded when one runs: `mooring --help` must feel instant.

clients = click.argument("clients", nargs=-1, type=ClientId(), metavar="CLIENT...")
servers = click.option(
    "--server", "servers", multiple=True, type=KNOWN_NAME, metavar="NAME", help="This server. Repeatable."
)
project = click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The files in this project, not those of all your projects.",
)
dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")


@click.group(
    short_help="Tell AI clients where the servers are.",
    epilog=examples(
        "mooring client ls",
        "mooring client add cursor claude-code",
        "mooring client add --all --dry-run",
        "mooring client import cursor",
        "mooring client undo",
    ),
)
def client() -> None:
    """Tell AI clients where the servers are: put entries into their configuration files, and keep them true.

    Only Mooring's own entries are touched: everything else in a file stays as it is, comments too. The last
    versions of each file are kept; mooring client undo brings back the one before.
    """


@client.command(
    "ls",
    short_help="List the clients, and the servers they know.",
    epilog=examples("mooring client ls", "mooring client ls --all", "mooring client ls --project . --json"),
)
@click.option("--all", "every", is_flag=True, help="Also clients that are not on this machine.")
@project
@as_json
def ls(every: bool, project: Path | None, as_json: bool) -> int:
    """List the AI clients on this machine, with the servers of Mooring that they know.

    With each: whether it notices changes by itself, and its file. On a terminal too narrow for all of that,
    names and paths are cut.
    """
    from mooring.cli.clients import showing  # noqa: PLC0415

    return showing.list_clients(every=every, project=project, as_json=as_json)


@client.command(
    "add",
    short_help="Tell clients of servers.",
    epilog=examples(
        "mooring client add cursor",
        "mooring client add --all --dry-run",
        "mooring client add zed vscode --server time",
        "mooring client add claude-code --project .",
    ),
)
@clients
@click.option("--all", "every", is_flag=True, help="All clients on this machine.")
@servers
@project
@dry_run
@click.option("--force", is_flag=True, help="Also over entries of these names that are not Mooring's.")
@as_json
def add(
    *,
    clients: tuple[str, ...],
    every: bool,
    servers: tuple[str, ...],
    project: Path | None,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Put entries into the files of clients, and say what happens next in each.

    Without --server it is all servers, and from then on each new one too. An entry that is not Mooring's, or
    that was changed by hand, is left alone, unless --force is given. A file that cannot be edited without
    touching anything else is left as it is, and what to paste is printed. One client's trouble does not
    stop the others.
    """
    from mooring.cli.clients import changing  # noqa: PLC0415

    return changing.add(
        clients,
        every=every,
        servers=servers,
        project=project,
        how=changing.How(dry_run=dry_run, force=force, as_json=as_json),
    )


@client.command(
    "rm",
    short_help="Take servers out of clients again.",
    epilog=examples(
        "mooring client rm cursor", "mooring client rm zed --server time", "mooring client rm --all --dry-run"
    ),
)
@clients
@click.option("--all", "every", is_flag=True, help="All clients that have entries of Mooring.")
@servers
@project
@dry_run
@click.option("--force", is_flag=True, help="Also entries that were changed by hand.")
@as_json
def rm(
    *,
    clients: tuple[str, ...],
    every: bool,
    servers: tuple[str, ...],
    project: Path | None,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Take Mooring's entries out of the files of clients. The servers themselves stay.

    Without --server it is all entries of Mooring, and new servers are no longer added there.
    """
    from mooring.cli.clients import changing  # noqa: PLC0415

    return changing.remove(
        clients,
        every=every,
        servers=servers,
        project=project,
        how=changing.How(dry_run=dry_run, force=force, as_json=as_json),
    )


@client.command(
    "undo",
    short_help="Have files as they were before the last change.",
    epilog=examples("mooring client undo", "mooring client undo cursor"),
)
@click.argument("client", type=ClientId(), required=False)
@as_json
def undo(client: str | None, as_json: bool) -> int:
    """Take back what the last command changed, in all files or in those of one client; again: the one before.

    A file that nobody has changed since is then to the byte as it was; in others only Mooring's entries are
    put back to what they were, which is told.
    """
    from mooring.cli.clients import changing  # noqa: PLC0415

    return changing.undo(client, as_json=as_json)


@client.command(
    "import",
    short_help="Have Mooring run what clients run now.",
    epilog=examples(
        "mooring client import --dry-run",
        "mooring client import cursor",
        "mooring client import claude-code --server github --yes",
    ),
)
@click.argument("clients", nargs=-1, type=ClientId(), metavar="[CLIENT]...")
@click.option("--all", "every", is_flag=True, help="All clients on this machine: the default.")
@click.option(
    "--server", "servers", multiple=True, metavar="NAME", help="The entry of this name. Repeatable."
)
@project
@dry_run
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def import_(
    *,
    clients: tuple[str, ...],
    every: bool,
    servers: tuple[str, ...],
    project: Path | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Make the servers that clients start by themselves Mooring's, and point the clients to Mooring.

    The plan is shown first, and asked about. Names become such that Mooring can have them; values that look
    like secrets are moved to the secret store; the same server of two clients becomes one. The entry of a
    server that does not work is left as it is. mooring client undo brings the files back.
    """
    from mooring.cli.clients import importing  # noqa: PLC0415

    return importing.import_servers(
        clients, every=every, entries=servers, project=project, dry_run=dry_run, yes=yes, as_json=as_json
    )


@client.command(
    "refresh",
    short_help="Make clients connect to a server anew, now.",
    epilog=examples("mooring client refresh time"),
)
@click.argument("name", type=KNOWN_NAME)
@as_json
def refresh(name: str, as_json: bool) -> int:
    """Make clients connect to a server anew, now.

    Its entries are taken out of their files, and put back when the clients have noticed. That is for a client
    that has lost its connection and does not try again. Mooring does it by itself when it knows that a
    session was lost; see --client-refresh of mooring run.
    """
    from mooring.cli.clients import refreshing  # noqa: PLC0415

    return refreshing.refresh(name, as_json=as_json)


@client.command(
    "sync",
    short_help="Put right what is not as it should be in clients' files.",
    epilog=examples("mooring client sync", "mooring client sync --repair auto"),
)
@click.option(
    "--repair",
    type=click.Choice(["auto", "off"]),
    help="From now on have the daemon do this by itself, or not.",
)
@as_json
def sync(repair: str | None, as_json: bool) -> int:
    """Put right what is not as it should be in the files of clients.

    Entries that are missing come back, those that lead to an old address are corrected, those of servers that
    are gone are taken out. What was changed by hand is told, and left. Some clients rewrite their files: with
    --repair auto the daemon puts right what it can, at most three times an hour for each entry.
    """
    from mooring.cli.clients import changing  # noqa: PLC0415

    return changing.sync(repair, as_json=as_json)
