"""What `mooring login` and `logout` do: which server it is, the user's browser, and what came of it."""

import asyncio
import json
import os
import sys
import webbrowser
from datetime import UTC, datetime
from typing import NamedTuple

import click

from mooring.cli.files.known import known_servers
from mooring.cli.reach import reach
from mooring.cli.running.conflicts import conflict
from mooring.cli.servers.changing import CHANGES, change_each
from mooring.cli.terminal.words import tell
from mooring.errors import UserError
from mooring.host.places import find_places
from mooring.http.client_proxies import Proxies
from mooring.oauth.fetching import TlsFiles, through
from mooring.oauth.login import ClientGiven, LoggedIn, login, logout
from mooring.oauth.metadata import shown
from mooring.secrets.references import parse
from mooring.secrets.resolving import Resolver
from mooring.secrets.vault import Vault

__all__ = ["log_in", "log_out"]


class _Where(NamedTuple):
    """A server."""

    shown: str
    url: str
    tls: TlsFiles = TlsFiles()
    has_failed: bool = False
    """The daemon has it, and does not try it by itself any more."""


def log_in(
    *,
    server: str,
    no_browser: bool,
    client_id: str | None,
    client_secret: str | None,
    client_metadata: str | None,
    redirect_port: int,
    timeout: float,
    as_json: bool,
) -> int:
    """The exit status."""
    where = _find(server)
    if client_secret and not client_id:
        raise conflict("--client-secret goes with --client-id", "give both or none")
    client = ClientGiven(client_id, _secret(client_secret), client_metadata, redirect_port)

    def show(address: str) -> None:
        opened = not no_browser and _open_browser(address)
        what = "opened in your browser" if opened else "open this address in a browser on this machine"
        tell("login", f"{what}: {address}")

    found = asyncio.run(
        login(
            where.url,
            find_places(os.environ).state,
            show=show,
            client=client,
            tls=where.tls,
            timeout_s=timeout,
            network=through(Proxies.from_environment(os.environ)),
        )
    )
    click.echo(json.dumps(_as_json(where, found), indent=2) if as_json else _told(where, found))
    if where.has_failed:
        return change_each(CHANGES["start"], (server,), every=False, wait=not as_json, as_json=False)
    return 0


def log_out(server: str, *, as_json: bool) -> int:
    """The exit status."""
    where = _find(server)
    done = asyncio.run(
        logout(
            where.url,
            find_places(os.environ).state,
            tls=where.tls,
            network=through(Proxies.from_environment(os.environ)),
        )
    )
    if as_json:
        told = {"server": where.shown, "was_there": done.was_there, "is_revoked": done.is_revoked}
        click.echo(json.dumps(told, indent=2))
    elif not done.was_there:
        click.echo(f"nobody was logged in to {where.shown}")
    else:
        how = "its tokens are revoked" if done.is_revoked else "its tokens are forgotten here"
        click.echo(f"logged out of {where.shown}; {how}")
    if done.problem is not None:
        tell("warning", f"they could not be revoked: {done.problem.message}")
    return 0


def _find(server: str) -> _Where:
    if "://" in server:
        return _Where(shown(server), server)
    client = reach(start=True)
    known = known_servers(client).get(server)
    if known is None:
        raise UserError(f"there is no server {server}", code="no_such_server", hint="mooring ls lists them")
    if known.options is None or known.options.remote is None:
        raise UserError(
            f"{server} runs here, and asks nobody to log in",
            code="not_elsewhere",
            hint="what it needs to know is given with mooring run: --env, or mooring secret",
        )
    remote = known.options.remote
    has_failed = client.ask("GET", f"/servers/{server}")["state"] == "failed"
    tls = TlsFiles(remote.ca_file, remote.client_cert, remote.client_key)
    return _Where(server, remote.url, tls, has_failed)


def _secret(reference: str | None) -> str | None:
    """What it leads to. Raises UserError that does not repeat it: it may be the secret itself."""
    if reference is None:
        return None
    try:
        has_references = bool(parse(reference).references)
    except ValueError:
        has_references = False
    if not has_references:
        raise UserError(
            "--client-secret takes where the secret is, not the secret: everybody can read command lines",
            code="secret_in_argv",
            hint="mooring secret set NAME, and then: --client-secret secret:NAME",
        )
    vault = Vault(find_places(os.environ).secrets)
    resolver = Resolver(vault, os.environ, whose="the environment of this command", remedy="set {name}")
    return resolver.resolve({"--client-secret": reference}).variables["--client-secret"]


def _open_browser(address: str) -> bool:
    """Only one with windows: another would take the terminal, or wait for somebody who is not there."""
    has_windows = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    try:
        return has_windows and webbrowser.open(address)
    except webbrowser.Error:
        return False


def _told(where: _Where, found: LoggedIn) -> str:
    text = f"logged in to {where.shown}, by {found.issuer}"
    if found.scopes:
        text += f", for {' '.join(found.scopes)}"
    if found.renews or found.expires_at is None:
        return text
    until = datetime.fromtimestamp(found.expires_at, UTC).isoformat(timespec="minutes")
    return f"{text}; until {until}, as it cannot be renewed"


def _as_json(where: _Where, found: LoggedIn) -> dict[str, object]:
    return {
        "server": where.shown,
        "issuer": found.issuer,
        "scopes": list(found.scopes),
        "expires_at": found.expires_at,
        "renews": found.renews,
    }
