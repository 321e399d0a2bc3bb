"""What `mooring service` does: the file of the service, and whoever acts on it."""

import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mooring.api.client import ApiClient
from mooring.cli.reach import if_it_answers
from mooring.cli.service.files import Service, is_ours, service_for
from mooring.cli.service.managers import Manager, find_manager
from mooring.cli.terminal.words import tell
from mooring.errors import MooringError, Unavailable, UserError
from mooring.host.places import find_places

__all__ = ["install", "show", "start_if_ours", "uninstall"]


def install() -> None:
    """`mooring service install`."""
    manager = find_manager(os.environ)
    _set_up(manager)
    click.echo(f"{_short(manager.file)} is written")
    click.echo("Mooring is started at every login from now on")
    running = if_it_answers(ApiClient(find_places(os.environ).socket))
    if running is not None and not manager.is_running():
        click.echo(
            f"It runs already (pid {running['pid']}), but not as a service. To have that now: "
            "mooring daemon stop && mooring daemon start"
        )
    else:
        manager.start()
        click.echo("It runs")
    tell("note", manager.advice)


def _set_up(manager: Manager) -> None:
    """The file is there and counts; or all is as it was."""
    _check_ours(manager)
    before = manager.file.read_bytes() if manager.file.exists() else None
    _write(manager.file, _content(manager))
    try:
        manager.enable()
    except MooringError:
        if before is None:
            manager.file.unlink(missing_ok=True)
        else:
            _write(manager.file, before)
        raise


def uninstall() -> None:
    """`mooring service uninstall`. Without its files there is no service, whoever cannot be told of that."""
    manager = find_manager(os.environ)
    if not any(os.path.lexists(file) for file in manager.files):
        click.echo("There is no service")
        return
    _check_ours(manager)
    failure = _attempted(manager.disable)
    for file in manager.files:
        file.unlink(missing_ok=True)
    failure = failure or _attempted(manager.forget)
    click.echo(f"{_short(manager.file)} is removed; Mooring is not started at login any more")
    if failure is not None:
        raise Unavailable(
            f"{manager.name} could not be told: {failure.message}",
            code=failure.code,
            hint="if it runs as a service, it does until it is stopped: mooring daemon stop",
        )


def _check_ours(manager: Manager) -> None:
    """Raises UserError if somebody else has written it."""
    if manager.file.exists() and not is_ours(manager.file.read_bytes()):
        raise UserError(
            f"{manager.file} was not written by Mooring",
            code="service_failed",
            hint="if you do not need it, remove it yourself",
        )


def _attempted(deed: Callable[[], None]) -> MooringError | None:
    """What went wrong."""
    try:
        deed()
    except MooringError as error:
        return error
    return None


def show(*, as_json: bool) -> None:
    """`mooring service status`."""
    manager = find_manager(os.environ)
    is_there = manager.file.exists()
    told = {
        "manager": manager.name,
        "file": str(manager.file),
        "installed": is_there,
        "current": is_there and _is_current(manager),
        "enabled": is_there and manager.is_enabled(),
        "running": is_there and manager.is_running(),
    }
    click.echo(json.dumps(told, indent=2) if as_json else _in_words(told))


def start_if_ours() -> None:
    """If there is a service for this installation and these places. Raises MooringError."""
    with contextlib.suppress(UserError):  # nobody who could have one
        manager = find_manager(os.environ)
        if manager.file.exists() and _is_current(manager) and manager.is_enabled():
            manager.start()


def _is_current(manager: Manager) -> bool:
    try:
        return manager.file.read_bytes() == _content(manager)
    except OSError:
        return False


def _in_words(told: dict[str, Any]) -> str:
    if not told["installed"]:
        return "There is no service: mooring service install"
    lines = [f"service: {_short(Path(told['file']))}, for {told['manager']}"]
    lines.append("login:   " + ("it is started" if told["enabled"] else "it is NOT started: disabled"))
    lines.append("now:     " + ("it runs" if told["running"] else "it does not run as a service"))
    if not told["current"]:
        text = "it is for another installation, port or state directory: mooring service install renews it"
        lines.append(f"note:    {text}")
    return "\n".join(lines)


def _content(manager: Manager) -> bytes:
    try:
        return manager.content(_service())
    except ValueError as error:
        raise UserError(str(error), code="bad_environment", hint="change that variable") from None


def _service() -> Service:
    return service_for(sys.executable, os.environ, find_places(os.environ).log)


def _write(path: Path, content: bytes) -> None:
    """All of it or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        begun = path.with_name(f"{path.name}.new")
        begun.unlink(missing_ok=True)  # of an earlier attempt; or somebody's link to another file
        with begun.open("xb") as file:
            file.write(content)
        begun.replace(path)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror}",
            code="service_failed",
            hint="make it writable for you",
        ) from error


def _short(path: Path) -> str:
    home = str(Path.home())
    return f"~{str(path).removeprefix(home)}" if str(path).startswith(f"{home}/") else str(path)
