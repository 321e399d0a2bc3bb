"""`mooring service`: the daemon is there after every login."""

import click

from mooring.cli.servers.commands import as_json, examples

__all__ = ["service"]


@click.group(
    short_help="Have the daemon started at every login.",
    epilog=examples("mooring service install", "mooring service status", "mooring service uninstall"),
)
def service() -> None:
    """Have the system start the daemon at every login, and again if it should fail.

    By a systemd user unit on Linux, a launchd agent on macOS. The servers that should run come with it.
    """


@service.command(
    "install", short_help="Write, enable and start it.", epilog=examples("mooring service install")
)
def install() -> None:
    """Write the service, enable it and start it; again after an upgrade, or to change MOORING_PORT.

    MOORING_STATE_DIR and MOORING_PORT are kept as they are set now.
    """
    from mooring.cli.service import serving_at_login  # noqa: PLC0415 - heavy from here on

    serving_at_login.install()


@service.command("uninstall", short_help="Remove it.", epilog=examples("mooring service uninstall"))
def uninstall() -> None:
    """Stop the service and remove it. Servers stay known; mooring daemon start brings them back."""
    from mooring.cli.service import serving_at_login  # noqa: PLC0415

    serving_at_login.uninstall()


@service.command(
    "status",
    short_help="Is it installed?",
    epilog=examples("mooring service status", "mooring service status --json"),
)
@as_json
def status(as_json: bool) -> None:
    """Tell whether the service is installed, and whether the daemon is run by it."""
    from mooring.cli.service import serving_at_login  # noqa: PLC0415

    serving_at_login.show(as_json=as_json)
