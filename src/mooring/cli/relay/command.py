"""`mooring relay` and its commands."""

import os
from typing import Any

import click

from mooring.cli.relay.tokens import state, token
from mooring.cli.servers.commands import as_json, examples
from mooring.cli.terminal.layout import ParentCommand, log_options, section
from mooring.cli.values import Parsed, parse_count, parse_duration, parse_listen, parse_size

__all__ = ["relay"]

# What the commands do is loaded when one runs: `mooring --help` must feel instant.

where = section("Where it is reached")
certificate = section("Its certificate (with --domain)")
limits = section("Limits")
stopping = section("Stopping")
insist = section("What it refuses otherwise")
path = click.Path(dir_okay=False)


def _parse_proxy(text: str) -> Any:
    from mooring.relay.admission import parse_proxy  # noqa: PLC0415

    return parse_proxy(text)


def _parse_bytes_per_minute(text: str) -> int | None:
    if text == "none":
        return None
    from mooring.relay.meters import LEAST_BYTES_PER_MINUTE as LEAST  # noqa: PLC0415

    size = parse_size(text)
    if size < LEAST:
        raise ValueError(f"{text} is too little to work with: give {LEAST >> 20}MiB or more, or none")
    return size


@click.group(
    cls=ParentCommand,
    invoke_without_command=True,
    short_help="Run a relay, through which servers are reached from anywhere.",
    epilog=examples(
        "mooring relay --domain relay.example.com",
        "mooring relay --tls-cert relay.pem --tls-key relay.key --listen :8443",
        "mooring relay --insecure-listen 127.0.0.1:8080    # behind a proxy with TLS",
        "mooring relay token create laptop --servers time,notes",
        "mooring relay status",
    )
    + "\n\b\nExit status:\n"
    "  0  stopped as asked\n"
    "  1  an address cannot be listened on\n"
    "  2  wrong usage or configuration\n"
    "  3  a call was cut off at the deadline of a shutdown\n",
)
@where(
    "--domain",
    metavar="NAME",
    default="",
    help="The name it is reached by. Its certificate is had from an ACME authority.",
)
@where("--tls-cert", type=path, metavar="PATH", help="A certificate of your own (PEM, with its chain).")
@where("--tls-key", type=path, metavar="PATH", help="Its private key (PEM).")
@where(
    "--listen",
    type=Parsed("address", parse_listen),
    metavar="ADDRESS",
    default=":443",
    show_default=True,
    help="Where it listens with TLS.",
)
@where(
    "--insecure-listen",
    type=Parsed("address", parse_listen),
    metavar="ADDRESS",
    help="Listen here without TLS: for a proxy of your own that has it.",
)
@where(
    "--public-url",
    metavar="URL",
    default="",
    help="What it is called from outside, where that cannot be concluded.",
)
@where(
    "--allow-origin",
    "allow_origins",
    multiple=True,
    metavar="ORIGIN",
    help="Let pages of this site call servers.",
)
@where(
    "--metrics-listen",
    type=Parsed("address", parse_listen),
    metavar="ADDRESS",
    help="Serve /metrics at this address of this machine.",
)
@certificate(
    "--http-listen",
    type=Parsed("address|none", lambda text: None if text == "none" else parse_listen(text)),
    metavar="ADDRESS|none",
    default=":80",
    show_default=True,
    help="Where the authority looks (HTTP-01); without it, it looks by TLS-ALPN-01.",
)
@certificate("--acme-directory", metavar="URL", default="", help="Another authority than Let's Encrypt.")
@certificate(
    "--acme-ca-file",
    type=path,
    metavar="PATH",
    help="Trust the authority in this file for that one's own certificate.",
)
@certificate("--acme-email", metavar="ADDRESS", default="", help="Whom the authority writes to.")
@certificate("--acme-challenge", type=click.Choice(["http-01", "tls-alpn-01"]), help="How it is to look.")
@limits(
    "--max-connections",
    type=Parsed("number", lambda text: parse_count(text, least=1)),
    metavar="N",
    default="10000",
    show_default=True,
    help="At once, of agents and callers together.",
)
@limits(
    "--bytes-per-minute",
    type=Parsed("size|none", _parse_bytes_per_minute),
    metavar="SIZE|none",
    default="512MiB",
    show_default=True,
    help="Of one token, at least 8MiB. Beyond that it is read from more slowly.",
)
@limits(
    "--upgrades-per-second",
    type=float,
    default="20",
    show_default=True,
    metavar="N",
    help="Agents that one address may connect.",
)
@limits(
    "--trust-proxy",
    "trust_proxies",
    type=Parsed("address", _parse_proxy),
    multiple=True,
    metavar="ADDRESS",
    help="Believe X-Forwarded-For of this address, network or `unix`.",
)
@stopping(
    "--drain-timeout",
    type=Parsed("time", parse_duration),
    metavar="TIME",
    default="10s",
    show_default=True,
    help="After a signal, give calls and closes so long: closes have 2 s of it, with 1,500 links 5 s, "
    "but no more than half.",
)
@stopping(
    "--announce-restart",
    is_flag=True,
    help="A signal means a restart: agents are told to come back, and when.",
)
@insist("--production", is_flag=True, help="Refuse what is no good in production, as --domain does.")
@insist("--allow-plaintext", is_flag=True, help="Listen without TLS where others can reach it.")
@insist("--allow-root", is_flag=True, help="Run as root in production.")
@state
@log_options
@click.pass_context
def relay(ctx: click.Context, /, **given: Any) -> int:
    """Run a relay: workstations connect to it, and their servers are reached at its address.

    Who may connect and call is said by tokens (mooring relay token). Its state is kept in --state,
    MOORING_RELAY_STATE or ~/.local/state/mooring-relay.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    from mooring.cli.relay.running import run_relay  # noqa: PLC0415 - heavy from here on

    return run_relay(given, os.environ)


relay.add_command(token)


@relay.command(
    short_help="Tell how the relay is, and who is connected.",
    epilog=examples("mooring relay status", "mooring relay status --json"),
)
@state
@as_json
def status(state: str | None, as_json: bool) -> int:
    """Tell who is connected to the relay of this folder: since when, how far away, calls and reconnects."""
    from mooring.cli.relay.running import show_status  # noqa: PLC0415

    return show_status(state, as_json=as_json)


@relay.command(
    short_help="Restart the relay without losing a call.", epilog=examples("mooring relay restart")
)
@state
def restart(state: str | None) -> int:
    """Have the relay of this folder begin anew.

    Calls under way finish; whoever calls meanwhile is told to come again. Agents are told when to come
    back, each at another moment. For about a second in between nobody answers.
    """
    from mooring.cli.relay.running import restart_relay  # noqa: PLC0415

    return restart_relay(state)
