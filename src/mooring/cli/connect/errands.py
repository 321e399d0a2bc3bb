"""What `mooring connect` does."""

import json
import math
import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import click
import msgspec

from mooring.cli.control_sockets import ask_socket
from mooring.cli.reach import reach
from mooring.cli.terminal import output
from mooring.cli.terminal.tables import age, fitted
from mooring.cli.terminal.words import tell
from mooring.errors import MooringError, Unavailable, UserError
from mooring.host.connection_file import Wish, connections_path, read_wishes, status_sockets, write_wish
from mooring.host.places import Places, find_places

__all__ = ["connect", "show_status", "statuses", "stop", "table", "why_not"]

VARIABLE = "MOORING_RELAY_TOKEN"
WAIT_S = 20.0
"""For a connection in the background to come about, or to be refused."""
LOOK_S = 0.1
SILENT_S = 1.0
"""After which it is said that it takes long."""
HEAD = ("RELAY", "STATE", "NAME", "SINCE", "ROUND TRIP", "REQUESTS", "RECONNECTS", "NEXT TRY", "SERVERS")
NEXT_TRY = HEAD.index("NEXT TRY")
EXPENDABLE = ("RECONNECTS", "REQUESTS", "NAME")
HOPELESS = frozenset({"not_a_relay", "not_trusted", "tls_failed", "not_let_in"})
"""What ends the command in the foreground: whoever waits is told now, though the daemon goes on trying."""
REFERENCE = re.compile("(secret|keyring|file|env):.+")


def connect(relay: str, *, as_client: bool, background: bool, port: int, **given: Any) -> int:
    """Stay connected, here or in the daemon."""
    relay = _named(relay)  # first of all: is it an address?
    if as_client:
        return _call(relay, port, background=background, **given)
    client = reach(start=True)
    places = find_places(os.environ)
    known = [server["name"] for server in client.ask("GET", "/servers")]
    missing = [name for name in given["servers"] if name not in known]
    if missing:
        raise UserError(
            f"there is no server {missing[0]} here",
            code="unknown_server",
            hint="mooring ls lists those there are",
        )
    if not known:
        raise UserError("there are no servers to offer", code="no_servers", hint="mooring run adds one")
    wish = Wish(
        relay=relay,
        servers=tuple(given["servers"]),
        token=_reference(given["token"], given["token_file"]),
        ca_file=str(Path(given["ca_file"]).absolute()) if given["ca_file"] else "",
        allow_plaintext=given["allow_plaintext"],
    )
    if background:
        return _hand_to_daemon(wish, places, tuple(known), client, as_json=given["as_json"])
    return _stay(wish, places, tuple(known), given)


def _named(relay: str) -> str:
    """Raises UserError."""
    from mooring.host.relay_target import as_websocket  # noqa: PLC0415

    return as_websocket(relay)


def _reference(token: str | None, token_file: str | None) -> str:
    if token is not None and token_file is not None:
        raise UserError("--token and --token-file say two things", code="bad_usage", hint="give one of them")
    if token_file is not None:
        return f"file:{Path(token_file).absolute()}"
    token = f"env:{VARIABLE}" if token is None else token
    variable = token.removeprefix("env:")
    if variable != token and not os.environ.get(variable):
        raise UserError(
            "there is no token",
            code="no_token",
            hint=f"set {variable}, or name a file: --token-file PATH, "
            "or keep it: mooring secret set relay, and --token secret:relay",
        )
    if not REFERENCE.fullmatch(token):
        raise UserError(
            "--token takes a reference: everybody who lists processes sees a token on the command line",
            code="secret_in_argv",
            hint=f"write secret:NAME, keyring:NAME, file:PATH or env:NAME, or set {VARIABLE}",
        )
    return token


def _stay(wish: Wish, places: Places, known: tuple[str, ...], given: dict[str, Any]) -> int:
    with output.logs_on_stderr(given["log_format"], given["log_level"]) as log:
        from mooring.host import attending  # noqa: PLC0415 - heavy from here on
        from mooring.host.relay_target import options_of  # noqa: PLC0415

        printed: list[str] = []

        def on_connected(status: Any) -> None:
            if printed != status.servers:
                printed[:] = status.servers
                _print_urls(status.urls, as_json=given["as_json"])

        options = options_of(wish, places, known, on_connected=on_connected)
        for name in _held_by_daemon(wish.relay, places):
            log.warning(
                "the daemon here is connected to %s already, as %s (mooring connect stop ends that): "
                "with the same token this waits until it is not",
                wish.relay,
                name,
                extra={"event": "held_by_daemon"},
            )
        return attending.main(options, drain_timeout_s=given["drain_timeout"])


def _held_by_daemon(relay: str, places: Places) -> list[str]:
    """As whom it is connected there, if it is."""
    return [
        status["name"]
        for status in statuses(places)
        if status["relay"] == relay and status["held_by"] == "daemon" and status["connected_since"]
    ]


def _print_urls(urls: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"urls": urls}))
    else:
        for url in urls.values():
            click.echo(url)
    sys.stdout.flush()


def _hand_to_daemon(wish: Wish, places: Places, known: tuple[str, ...], client: Any, *, as_json: bool) -> int:
    _rehearse(wish, places, known)
    if wish.token.startswith("env:"):
        wish = _kept(wish, places)
    write_wish(connections_path(places), wish.relay, wish)
    client.ask("POST", "/connections")
    try:
        status = _wait_for(wish.relay, places)
    except KeyboardInterrupt:
        tell("note", f"the daemon goes on trying; mooring connect stop {wish.relay} ends that")
        raise
    # What forgets it comes first: the other may be a question.
    hint = "; ".join(filter(None, (f"mooring connect stop {wish.relay} forgets it", status.get("hint"))))
    if status["state"] == "refused":
        raise UserError(status["last_error"] or "the relay refuses", code="relay_refused", hint=hint)
    if _is_hopeless(status):
        raise Unavailable(
            f"{status['last_error']} (the daemon goes on trying)", code=status["last_error_code"], hint=hint
        )
    if status["state"] != "connected":
        why = f": {status['last_error']}" if status["last_error"] else ""
        tell("warning", f"not connected yet{why}; the daemon goes on trying (mooring connect status)")
        return 1
    _print_urls(status["urls"], as_json=as_json)
    return 0


def _rehearse(wish: Wish, places: Places, known: tuple[str, ...]) -> None:
    """A mistake in what is typed now changes nothing of what was asked for before."""
    from mooring.host.rehearsing import rehearse  # noqa: PLC0415 - heavy from here on
    from mooring.host.relay_target import options_of  # noqa: PLC0415

    is_held = wish.relay in [held.relay for held in read_wishes(connections_path(places))]
    try:
        rehearse(options_of(wish, places, known))
    except MooringError as error:
        if is_held:
            tell("note", f"the connection to {wish.relay} stays as it was")
        elif error.code in HOPELESS:
            return  # it may be a network that wants a login first: the daemon goes on trying
        raise


def _kept(wish: Wish, places: Places) -> Wish:
    """The daemon does not see this environment: the value is kept as a secret of its own."""
    from mooring.secrets.vault import Vault  # noqa: PLC0415

    host = re.sub("[^a-z0-9]+", "-", wish.relay.partition("://")[2].lower()).strip("-")
    name = f"relay-{host}"
    Vault(places.secrets).put(name, os.environ[wish.token.removeprefix("env:")])
    tell("note", f"the token is kept as secret:{name}")
    return msgspec.structs.replace(wish, token=f"secret:{name}")


def _wait_for(relay: str, places: Places) -> dict[str, Any]:
    """Says once what it waits for."""
    give_up_at, is_said = time.monotonic() + WAIT_S, False
    say_at = time.monotonic() + SILENT_S
    found: dict[str, Any] = {"state": "dialling", "last_error": None, "urls": {}}
    while time.monotonic() < give_up_at:
        for status in statuses(places):
            if status["relay"] == relay and status["held_by"] == "daemon":
                found = status
        if found["state"] in ("connected", "refused") or _is_hopeless(found):
            break
        if not is_said and (found["last_error"] or time.monotonic() > say_at):
            is_said = True
            tell("note", _waited_for(relay, found))
        time.sleep(LOOK_S)
    return found


def _waited_for(relay: str, status: dict[str, Any]) -> str:
    why = "it does not answer"
    if status["last_error"]:
        why = why_not(status)
        if status["next_attempt_in_s"] is not None:
            why += f"; tried again in {math.ceil(status['next_attempt_in_s'])} s"
    return f"not connected to {relay} yet: {why}; Ctrl-C leaves it to the daemon"


def _is_hopeless(status: dict[str, Any]) -> bool:
    return status.get("last_error_code") in HOPELESS  # a daemon of an earlier version tells no code


def stop(which: str | None) -> int:
    """`mooring connect stop`."""
    places = find_places(os.environ)
    path = connections_path(places)
    wishes = [wish.relay for wish in read_wishes(path)]
    if which is None and len(wishes) == 1:
        [which] = wishes
    if which is not None and which not in wishes:
        with suppress(UserError):
            which = _named(which)
    if which not in wishes:
        if not wishes:
            what, hint = "the daemon is connected to no relay", "mooring connect status shows all connections"
        else:
            what = f"the daemon is not to be connected to {which}" if which else "say which one"
            hint = f"there are: {', '.join(wishes)}"
        raise UserError(what, code="unknown_relay", hint=hint)
    write_wish(path, which, None)
    with suppress(MooringError):
        reach().ask("POST", "/connections", timeout_s=60.0)
    click.echo(f"{which} is not connected to any more")
    return 0


def show_status(*, as_json: bool) -> int:
    """`mooring connect status`."""
    found = statuses(find_places(os.environ))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return 0
    if not found:
        click.echo("Nothing is connected to a relay. Connect: mooring connect wss://HOST")
        return 0
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo("\n".join(table(found, width)))
    for status in found:
        if status["last_error"]:
            tell("note", f"{status['relay']}: {why_not(status)}")
            if status.get("hint"):
                tell("hint", status["hint"])
    return 0


def why_not(status: dict[str, Any]) -> str:
    """Without the address, which stands before it."""
    relay, why = status["relay"], str(status["last_error"])
    return why.removeprefix(f"{relay} ").removeprefix(f"{relay.partition('://')[2].rstrip('/')}: ")


def table(found: list[dict[str, Any]], width: int | None) -> list[str]:
    """Of connections; when each is tried again only if one is to be."""
    lines = [HEAD, *map(_row, found)]
    if all(line[NEXT_TRY] == "-" for line in lines[1:]):
        lines = [(*line[:NEXT_TRY], *line[NEXT_TRY + 1 :]) for line in lines]
    return fitted(lines[0], lines[1:], EXPENDABLE, width)


def _row(status: dict[str, Any]) -> tuple[str, ...]:
    trip, next_s = status["round_trip_ms"], status["next_attempt_in_s"]
    return (
        status["relay"],
        status["state"],
        status["name"] or "-",
        age(status["connected_since"]) if status["connected_since"] else "-",
        "-" if trip is None else f"{trip:.1f} ms",
        str(status["calls"]),
        str(status["reconnects"]),
        "-" if next_s is None else f"in {math.ceil(next_s)} s",
        # Of one that is not connected nothing is offered anywhere.
        (", ".join(status["servers"]) if status["connected_since"] else "") or "-",
    )


def statuses(places: Places) -> list[dict[str, Any]]:
    """Of everybody who is connected; a socket that nobody answers at is gone, and is removed."""
    found: list[dict[str, Any]] = []
    for path in sorted(status_sockets(places).glob("*.sock")):
        try:
            told = ask_socket(path, "GET", "/status")
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            continue
        except (OSError, Unavailable):
            continue
        held_by = path.name.partition("-")[0]
        found += [{**status, "held_by": held_by} for status in told]
    return found


def _call(relay: str, port: int, **given: Any) -> int:
    """`--client`: servers elsewhere, at a port of this machine."""
    servers = tuple(given["servers"])
    if not servers or not all("/" in server for server in servers) or given["background"]:
        raise UserError(
            "--client needs --server AGENT/NAME, and is no connection that the daemon holds",
            code="bad_usage",
            hint=f"mooring connect {relay} --client --server laptop/time",
        )
    with output.logs_on_stderr(given["log_format"], given["log_level"]):
        from mooring.host import calling  # noqa: PLC0415

        wish = Wish(
            relay=relay,
            servers=servers,
            token=_reference(given["token"], given["token_file"]),
            ca_file=str(Path(given["ca_file"]).absolute()) if given["ca_file"] else "",
            allow_plaintext=given["allow_plaintext"],
        )
        status: int = calling.main(
            wish,
            find_places(os.environ),
            port,
            drain_timeout_s=given["drain_timeout"],
            on_connected=lambda urls: _print_urls(urls, as_json=given["as_json"]),
        )
        return status
