"""`mooring uninstall`: leave no trace."""

import click

from mooring.cli.servers.commands import examples

__all__ = ["uninstall"]


@click.command(
    short_help="Remove all that Mooring has put on this machine.",
    epilog=examples("mooring uninstall", "mooring uninstall --dry-run", "mooring uninstall --yes"),
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def uninstall(dry_run: bool, yes: bool) -> int:
    """Stop the daemon and all servers, remove the service, and delete what is written down.

    That is: definitions, sessions, events and logs of all servers; Mooring's entries in the files of AI
    clients, and the versions of these files that were kept. It says what it will do, and asks.
    The program itself is removed the way it was installed.
    """
    from mooring.cli.uninstall import uninstalling  # noqa: PLC0415 - heavy from here on

    return uninstalling.uninstall(dry_run=dry_run, yes=yes)
