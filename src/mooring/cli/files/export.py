"""`mooring export`: servers that there are, as a file."""

import click

from mooring.cli.files.difference import Known
from mooring.cli.files.known import known_servers
from mooring.cli.files.writing import Written, as_json, as_toml, written
from mooring.cli.reach import reach
from mooring.errors import UserError

__all__ = ["export"]


def export(names: tuple[str, ...], *, every: bool, json_wanted: bool) -> int:
    """Print servers as a file."""
    if bool(names) == every:
        raise click.UsageError(
            "name servers, or give --all" if not names else "give names or --all, not both"
        )
    known = known_servers(reach())
    servers = [_written(known, name) for name in (known if every else dict.fromkeys(names))]
    click.echo(as_json(servers) if json_wanted else as_toml(servers), nl=False)
    if json_wanted:  # which has no comments
        for server in servers:
            for what, advice in server.advice.items():
                click.echo(f"note: {server.name}: {what}: {advice}", err=True)
    return 0


def _written(known: dict[str, Known], name: str) -> Written:
    if name not in known:
        raise UserError(
            f"there is no server named {name}", code="unknown_server", hint="mooring ls lists all"
        )
    options = known[name].options
    if options is None:
        raise UserError(
            f"what is known of {name} cannot be read by the daemon",
            code="bad_definition",
            hint=f"mooring rm {name}, then run it again",
        )
    return written(options)
