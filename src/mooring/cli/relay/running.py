"""What `mooring relay`, `status` and `restart` do."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import click

from mooring.cli.control_sockets import ask_socket
from mooring.cli.servers.telling import moment
from mooring.cli.terminal import output
from mooring.cli.terminal.tables import age, fitted
from mooring.cli.terminal.words import tell
from mooring.errors import Unavailable
from mooring.relay.state_folder import control_socket, find_state

__all__ = ["restart_relay", "run_relay", "show_status"]

HEAD = ("NAME", "KIND", "STATE", "SINCE", "ROUND TRIP", "REQUESTS", "OPEN", "RECONNECTS", "SERVERS")
EXPENDABLE = ("OPEN", "RECONNECTS", "REQUESTS")
RESTART_S = 60.0
"""For the relay to be back: its drain, and the start of a program."""
LOOK_S = 0.1


def run_relay(given: dict[str, Any], environment: Mapping[str, str]) -> int:
    """Until it is told to end."""
    with output.logs_on_stderr(given["log_format"], given["log_level"]):
        from mooring.host import relaying  # noqa: PLC0415 - heavy from here on
        from mooring.host.relay_options import AcmeOptions, RelayOptions  # noqa: PLC0415

        acme = AcmeOptions(
            directory=given["acme_directory"],
            ca_file=_path(given["acme_ca_file"]),
            email=given["acme_email"],
            challenge=given["acme_challenge"],
        )
        options = RelayOptions(
            state=find_state(given["state"], environment),
            domain=given["domain"],
            acme=acme,
            tls_cert=_path(given["tls_cert"]),
            tls_key=_path(given["tls_key"]),
            listen=given["listen"],
            http_listen=given["http_listen"],
            insecure_listen=given["insecure_listen"],
            metrics_listen=given["metrics_listen"],
            public_url=given["public_url"].rstrip("/"),
            allow_origins=given["allow_origins"],
            trust_proxies=given["trust_proxies"],
            max_connections=given["max_connections"],
            bytes_per_minute=given["bytes_per_minute"],
            upgrades_per_second=given["upgrades_per_second"],
            drain_timeout_s=given["drain_timeout"],
            announce_restart=given["announce_restart"],
            is_production=given["production"] or bool(given["domain"]),
            allow_plaintext=given["allow_plaintext"],
            allow_root=given["allow_root"],
        )
        return relaying.main(options)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def show_status(state: str | None, *, as_json: bool) -> int:
    """Of the relay that uses the folder."""
    told = _ask(state, "GET", "/status")
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return 0
    about = f"{told['state']}, pid {told['pid']}, version {told['version']}, up {age(told['started_at'])}"
    for url in told["urls"]:
        click.echo(f"{url}  {about}")
    _tell_of_certificate(told["certificate"])
    rows = [
        *(_row("agent", one) for one in told["agents"]),
        *(_row("client", one) for one in told["clients"]),
    ]
    if not rows:
        click.echo("Nobody is connected. Connect a workstation: mooring connect wss://HOST")
        return 0
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo("\n".join(fitted(HEAD, rows, EXPENDABLE, width)))
    return 0


def _row(kind: str, one: dict[str, Any]) -> tuple[str, ...]:
    trip = one["round_trip_ms"]
    return (
        one["name"],
        kind,
        one["state"],
        age(one["connected_since"]),
        "-" if trip is None else f"{trip:.1f} ms",
        str(one["calls"]),
        str(one["open"]),
        str(one["reconnects"]),
        ", ".join(one["servers"]) or "-",
    )


def _tell_of_certificate(certificate: dict[str, Any] | None) -> None:
    if certificate is None:
        return
    until = certificate["valid_until"]
    click.echo(f"certificate: {'none yet' if until is None else f'valid until {moment(until)}'}")
    if certificate["last_error"]:
        tell("warning", f"the certificate: {certificate['last_error']['message']}")


def restart_relay(state: str | None) -> int:
    """Ask for it, and wait until the relay is back."""
    before = _ask(state, "GET", "/status")
    _ask(state, "POST", "/restart")
    give_up_at = time.monotonic() + RESTART_S
    while time.monotonic() < give_up_at:
        time.sleep(LOOK_S)
        try:
            now = _ask(state, "GET", "/status")
        except Unavailable:
            continue
        if now["started_at"] != before["started_at"]:
            click.echo(f"the relay has restarted (pid {now['pid']})")
            return 0
    raise Unavailable("the relay does not come back", code="relay_silent", hint="its log says why")


def _ask(state: str | None, method: str, target: str) -> dict[str, Any]:
    folder = find_state(state, os.environ)
    try:
        answer: dict[str, Any] = ask_socket(control_socket(folder), method, target)
    except OSError:
        raise Unavailable(
            f"no relay runs with the folder {folder}",
            code="relay_not_running",
            hint="mooring relay starts one; --state says which folder",
        ) from None
    return answer
