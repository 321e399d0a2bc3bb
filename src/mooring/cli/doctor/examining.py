"""What `mooring doctor` does: all checks, one after another, told as they come."""

import json
import os
import sys
from functools import partial
from shutil import get_terminal_size

import click

from mooring.cli.doctor import checks_of_daemon as of_daemon
from mooring.cli.doctor import checks_of_machine as of_machine
from mooring.cli.doctor.checks_of_clients import check_clients
from mooring.cli.doctor.checks_of_containers import check_engines
from mooring.cli.doctor.checks_of_relays import check_relays
from mooring.cli.doctor.findings import Check, Finding, Level, collect, lines
from mooring.cli.terminal.words import colourful
from mooring.errors import UserError
from mooring.host.places import find_places

__all__ = ["examine"]

PLAIN_WIDTH = 100


def examine(*, as_json: bool) -> int:
    """`mooring doctor`; returns its exit status."""
    found = []
    colour = colourful(sys.stdout, os.environ)
    width = get_terminal_size().columns if sys.stdout.isatty() else PLAIN_WIDTH
    for finding in collect(_checks()):
        found.append(finding)
        if not as_json:
            click.echo("\n".join(lines(finding, width=width, colour=colour)))
    problems = sum(finding.level is Level.PROBLEM for finding in found)
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in found], indent=2))
    else:
        click.echo(f"\n{problems or 'no'} problem{'' if problems == 1 else 's'} found")
    return 1 if problems else 0


def _checks() -> list[tuple[str, Check]]:
    environment = dict(os.environ)
    wrong_port = []
    try:
        places = find_places(environment)
    except UserError as error:  # all else can still be looked at
        wrong_port = [Finding("port", Level.PROBLEM, error.message, error.hint)]
        del environment["MOORING_PORT"]
        places = find_places(environment)
    daemon = of_daemon.find_daemon(places)
    return [
        ("command", partial(of_machine.check_commands, environment)),
        ("files", partial(of_machine.check_files, places)),
        ("disk", partial(of_machine.check_disk, places)),
        ("clock", partial(of_machine.check_clock, places)),
        ("state", partial(of_machine.check_state, places)),
        ("secrets", partial(of_machine.check_secrets, places)),
        ("daemon", partial(of_daemon.check_daemon, places, daemon)),
        ("port", lambda: wrong_port or of_daemon.check_port(places, daemon, environment)),
        ("servers", partial(of_daemon.check_servers, places, daemon)),
        ("relays", partial(check_relays, places)),
        ("engine", partial(check_engines, places, environment)),
        ("clients", partial(check_clients, places, environment)),
        ("leftovers", partial(of_daemon.check_leftovers, places, daemon)),
        ("programs", partial(of_machine.check_programs, environment)),
        ("desktop", partial(of_machine.check_desktop_path, environment)),
        ("limits", of_machine.check_limits),
    ]
