"""`mooring relay token`: who may come to a relay."""

from itertools import chain
from typing import TYPE_CHECKING

import click

from mooring.cli.servers.commands import as_json, examples
from mooring.cli.values import Parsed, parse_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["token"]

# What the commands do is in `token_errands`, loaded when one runs: help must feel instant.


def _parse_agent(text: str) -> str:
    from mooring.relay.tokens import parse_agent  # noqa: PLC0415

    return parse_agent(text)


def _parse_servers(text: str) -> tuple[str, ...]:
    from mooring.relay.tokens import parse_servers  # noqa: PLC0415

    return parse_servers(text)


def _parse_calls(text: str) -> tuple[str, ...]:
    from mooring.relay.tokens import parse_calls  # noqa: PLC0415

    return parse_calls(text)


def _parse_lifetime(text: str) -> float:
    from mooring.relay.token_file import MAX_LIFETIME_S  # noqa: PLC0415

    try:
        span_s = parse_duration(text)
    except ValueError:
        span_s = 0.0
    if not 0 < span_s <= MAX_LIFETIME_S:
        raise ValueError(f"{text!r} is no time for which a token is good; write 12h, 30d or 365d")
    return span_s


class TokenName(Parsed):
    """Checked; completed with the names that there are."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Those that begin so."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only the shell asks

        from mooring.cli.relay.token_errands import known_names  # noqa: PLC0415

        return [
            CompletionItem(name) for name in known_names(_given_state(ctx)) if name.startswith(incomplete)
        ]


def _given_state(ctx: click.Context) -> str | None:
    """`--state` of the command, or of one before it: `mooring relay --state DIR token list`."""
    around: click.Context | None = ctx
    while around is not None:
        if given := around.params.get("state"):
            return str(given)
        around = around.parent
    return None


def _state(ctx: click.Context, _param: click.Parameter, given: str | None) -> str | None:
    return given or (_given_state(ctx.parent) if ctx.parent else None)


state = click.option(
    "--state",
    callback=_state,
    metavar="DIR",
    help="The relay's folder, in place of MOORING_RELAY_STATE or ~/.local/state/mooring-relay.",
)


@click.group(
    short_help="Who may come to a relay.",
    epilog=examples(
        "mooring relay token create laptop --servers time,notes",
        "mooring relay token create phone --call laptop/time",
        "mooring relay token list",
        "mooring relay token revoke phone",
    ),
)
def token() -> None:
    """Say who may come to a relay: which workstations, with which servers, and who may call these.

    A relay that runs knows of each change within seconds; a token that is revoked loses its
    connections.
    """


@token.command(
    short_help="Make a token.",
    epilog=examples(
        "mooring relay token create laptop --servers time,notes",
        "mooring relay token create laptop --servers '*' --expires 30d",
        "mooring relay token create phone --call laptop/time,laptop/notes",
        "mooring relay token create agent --call 'laptop/*' --json",
    ),
)
@click.argument("name", type=Parsed("name", _parse_agent))
@click.option(
    "--servers",
    type=Parsed("servers", _parse_servers),
    multiple=True,
    metavar="NAMES",
    help="It may connect as NAME and offer these servers, and call them: time,notes; '*' for any.",
)
@click.option(
    "--call",
    "calls",
    type=Parsed("calls", _parse_calls),
    multiple=True,
    metavar="SERVERS",
    help="It may call these: laptop/time,laptop/notes; 'laptop/*' for all of an agent, '*' for any.",
)
@click.option(
    "--expires",
    "lifetime_s",
    type=Parsed("time", _parse_lifetime),
    metavar="TIME",
    help="It is good for so long: 12h, 30d. Otherwise until it is revoked.",
)
@state
@as_json
def create(
    name: str,
    *,
    servers: tuple[tuple[str, ...], ...],
    calls: tuple[tuple[str, ...], ...],
    lifetime_s: float | None,
    state: str | None,
    as_json: bool,
) -> None:
    """Make a token, and print it: on stdout, alone, this once. Only its hash is kept.

    NAME belongs to the token. With --servers it is for a workstation, whose servers are then found
    under /NAME/SERVER/mcp; with --call for whoever calls servers; it may be for both.
    """
    if not servers and not calls:
        raise click.UsageError(
            "say what it is for: --servers for a workstation, --call for a caller, or both"
        )
    from mooring.cli.relay import token_errands  # noqa: PLC0415

    token_errands.create_token(
        state,
        name,
        servers=tuple(dict.fromkeys(chain(*servers))),
        calls=tuple(dict.fromkeys(chain(*calls))),
        lifetime_s=lifetime_s,
        as_json=as_json,
    )


@token.command(
    "list",
    short_help="List the tokens.",
    epilog=examples("mooring relay token list", "mooring relay token list --json"),
)
@state
@as_json
def list_(state: str | None, as_json: bool) -> None:
    """List the tokens by name: what each may connect and call, since when and until when. Never a token."""
    from mooring.cli.relay import token_errands  # noqa: PLC0415

    token_errands.list_tokens(state, as_json=as_json)


@token.command(
    short_help="Have a token be good no more.",
    epilog=examples("mooring relay token revoke laptop"),
)
@click.argument("name", type=TokenName("name", _parse_agent))
@state
def revoke(name: str, state: str | None) -> None:
    """Have a token be good no more. A relay that runs ends its connections within seconds."""
    from mooring.cli.relay import token_errands  # noqa: PLC0415

    token_errands.revoke_token(state, name)
