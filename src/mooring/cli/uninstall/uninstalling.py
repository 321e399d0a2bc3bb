"""What `mooring uninstall` does: a list of what there is, a question, and then one thing after another.

Only what Mooring has made is deleted: a state directory may, by mistake, be one that has other things in it.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click

from mooring.api.client import ApiClient, NotRunning
from mooring.cli.servers.changing import end_daemon
from mooring.cli.servers.telling import count
from mooring.cli.service import serving_at_login
from mooring.cli.service.managers import find_manager
from mooring.cli.terminal.words import show_error
from mooring.cli.uninstall.client_files import ClientFiles
from mooring.errors import MooringError, Unavailable, UserError
from mooring.host.connection_file import connections_path, status_sockets
from mooring.host.harbouring import containers_left, end_containers_left, known_owner
from mooring.host.places import Places, find_places
from mooring.http.client_proxies import Proxies
from mooring.oauth.fetching import through
from mooring.oauth.keeping import logins_folder
from mooring.oauth.login import LoginState, logout, statuses
from mooring.runtimes.containers.logbook import Logbook
from mooring.runtimes.roll import Roll
from mooring.secrets.vault import Vault
from mooring.store.database import DAMAGED, FILE_NAME

__all__ = ["uninstall"]

PATIENCE_S = 5.0


class Step(NamedTuple):
    """Something to be done."""

    text: str
    do: Callable[[], object]
    is_first: bool = False
    """Nothing else is done unless this is."""


def uninstall(*, dry_run: bool, yes: bool) -> int:
    """`mooring uninstall`; returns its exit status."""
    places = find_places(os.environ)
    steps = list(_steps(places))
    if not steps:
        click.echo("There is nothing to remove")
    else:
        click.echo("To be done:")
        for step in steps:
            click.echo(f"  {step.text}")
    if dry_run or (steps and not _agreed(yes)):
        return 0
    failures = _do_all(steps)
    if (others := _left(places)) and not failures:
        click.echo(f"{places.state} stays, with what is not Mooring's: {', '.join(others)}")
    done = "The rest is done" if failures else "Done"
    click.echo(f"{done}. To remove the program itself: {_how_to_remove_the_program()}")
    for failure in failures:
        show_error(failure.message, failure.hint)
    return 1 if failures else 0


def _do_all(steps: list[Step]) -> list[MooringError]:
    """What could not be done; the rest is."""
    failures: list[MooringError] = []
    for step in steps:
        try:
            step.do()
        except MooringError as error:
            if step.is_first:
                raise
            failures.append(error)
    return failures


def _agreed(yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UserError(
            "this deletes what cannot be brought back, and there is nobody to ask",
            code="not_agreed",
            hint="mooring uninstall --yes",
        )
    return click.confirm("Go on?", default=False)


def _steps(places: Places) -> Iterator[Step]:
    if (servers := _servers(places)) is not None:
        text = f"stop the daemon, and with it {count(servers, 'server')}, after the calls in flight"
        yield Step(text, lambda: end_daemon(wait=True), is_first=True)
    else:
        yield from _containers(places)
    client_files = ClientFiles(places)
    if (plan := client_files.plan()) is not None:
        yield Step(plan, client_files.restore)
    if (service := _service()) is not None:
        yield Step(f"remove the service {service}", serving_at_login.uninstall)
    if secrets := _secrets_elsewhere(places):
        text = f"delete {count(len(secrets), 'secret')} in the system's keyring: {', '.join(secrets)}"
        yield Step(text, lambda: [Vault(places.secrets).remove(name) for name in secrets])
    if logins := _logins(places):
        text = f"log out of {count(len(logins), 'server')} elsewhere: {', '.join(logins)}"
        yield Step(text, lambda: _log_out(places, logins))
    made = _made(places, client_files)
    if made:
        text = f"delete {count(len(made), 'file')} in {places.state}: servers, sessions, secrets, logs"
        yield Step(text, lambda: _delete(places, client_files))


def _containers(places: Places) -> Iterator[Step]:
    """Those that a daemon which was killed has left."""
    left, silent = containers_left(places)
    if left:
        text = f"remove {count(len(left), 'container')} that a daemon which was killed has left"
        yield Step(text, lambda: end_containers_left(places))
    for where in silent:
        what = f"what may be left there has the label dev.mooring.owner={known_owner(places)}"
        click.echo(f"The container engine at {where} does not answer; {what}")


def _servers(places: Places) -> int | None:
    """How many the daemon has; None if it does not run."""
    try:
        return len(ApiClient(places.socket).ask("GET", "/servers", timeout_s=PATIENCE_S))
    except NotRunning:
        return None
    except Unavailable as error:
        error.hint = "mooring doctor says what to do about a daemon that does not answer"
        raise


def _service() -> Path | None:
    try:
        manager = find_manager(os.environ)
    except UserError:  # nobody who could have one
        return None
    return manager.file if any(os.path.lexists(file) for file in manager.files) else None


def _secrets_elsewhere(places: Places) -> list[str]:
    """Those that are not in a file of ours."""
    try:
        kept = Vault(places.secrets).all()
    except MooringError:  # damaged: then nobody knows
        return []
    return [name for name, secret in kept.items() if secret.value is None]


def _logins(places: Places) -> list[str]:
    """Servers elsewhere to which somebody is logged in."""
    try:
        known = statuses(places.state)
    except MooringError:  # damaged: then nobody knows
        return []
    return [one.about.server for one in known if one.state is not LoginState.NONE]


def _log_out(places: Places, servers: list[str]) -> None:
    """Revoked where that can be done; forgotten in any case."""
    for server in servers:
        asyncio.run(logout(server, places.state, network=through(Proxies.from_environment(os.environ))))


def _made(places: Places, client_files: ClientFiles) -> list[Path]:
    """All files of ours that are there."""
    state, secrets, token = places.state, places.secrets, places.token
    tokens = (token, token.with_name("token.new"))
    single = (places.lock, places.log, places.socket, places.handover, places.owner)
    database = (state / f"{FILE_NAME}{suffix}" for suffix in ("", "-wal", "-shm"))
    vault = (secrets, secrets.with_name(f"{secrets.name}.new"), secrets.with_suffix(".lock"))
    aside = (
        token.with_name("token.new"),
        *state.glob(f"{DAMAGED}*"),
        *state.glob(f"{secrets.name}.damaged-*"),
    )
    logs = (*_within(places.logs, "*.log"), *_within(places.logs, "*.log.*"))
    roll = [] if places.roll.is_symlink() else Roll(places.roll, "").files()
    engines = [] if places.engines.is_symlink() else Logbook(places.engines).files()
    logins = _within(logins_folder(state), "*")
    wishes = connections_path(places)
    relays = (
        *(wishes, wishes.with_name(f"{wishes.name}.new"), wishes.with_suffix(".lock")),
        *_within(status_sockets(places), "*.sock"),
    )
    every = (
        *(*single, *tokens, *database, *vault, *aside, *logs, *roll, *engines, *logins, *relays),
        *client_files.made(),
    )
    return [path for path in every if os.path.lexists(path)]


def _within(directory: Path, pattern: str) -> Iterator[Path]:
    """Of a directory of ours; not of one somewhere else to which somebody has put a link."""
    return iter(()) if directory.is_symlink() else directory.glob(pattern)


def _delete(places: Places, client_files: ClientFiles) -> None:
    try:
        for path in _made(places, client_files):  # again: the daemon has ended since
            path.unlink(missing_ok=True)
        for directory in (
            places.logs,
            places.roll,
            places.engines,
            logins_folder(places.state),
            status_sockets(places),
            *client_files.folders(),
        ):
            with suppress(OSError):  # it is not there, or something else is in it
                directory.rmdir()
        if not _left(places):
            places.state.rmdir()
    except OSError as error:
        raise UserError(
            f"{error.filename or places.state} cannot be deleted: {error.strerror}",
            code="state_unusable",
            hint="make it writable for you, and try again: what is done stays done",
        ) from error


def _left(places: Places) -> list[str]:
    return sorted(path.name for path in places.state.iterdir()) if places.state.is_dir() else []


def _how_to_remove_the_program() -> str:
    if sys.prefix != sys.base_prefix:
        return f"pip uninstall mooring, or delete its environment {sys.prefix}"
    return "pip uninstall mooring"
