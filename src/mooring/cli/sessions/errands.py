"""What `mooring sessions` does."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from shutil import get_terminal_size
from typing import Any

import click

from mooring.cli.running.replicas import plan_address, resolve_key, resolve_reference
from mooring.cli.terminal.tables import Rolling
from mooring.cli.terminal.words import printable, tell
from mooring.errors import Unavailable
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.redis_needed import redis_needed
from mooring.replicas.store_errors import UNUSABLE_HINT, StoreUnavailable, unusable

with redis_needed():  # all else here needs it
    from mooring.cli.sessions.telling import EXPENDABLE, HEAD, as_values, described, detailed, row
    from mooring.replicas.inspecting import Ending, Inspector, Seen
    from mooring.replicas.redis_client import open_client
    from mooring.replicas.shared_store import refusal_of

__all__ = ["end_session", "list_sessions", "show_session"]

Given = Mapping[str, Any]


def list_sessions(given: Given) -> int:
    """`mooring sessions ls`."""
    return _with(given, lambda inspector: _list(inspector, given))


def show_session(given: Given) -> int:
    """`mooring sessions show`."""
    return _with(given, lambda inspector: _show(inspector, given))


def end_session(given: Given) -> int:
    """`mooring sessions end`."""
    key = resolve_key(given["replica_key"], os.environ)
    return _with(given, lambda inspector: _end(inspector, given, key))


def _with(given: Given, errand: Callable[[Inspector], Awaitable[None]]) -> int:
    async def run() -> None:
        async with _inspecting(given) as inspector:
            await errand(inspector)

    asyncio.run(run())
    return 0


@asynccontextmanager
async def _inspecting(given: Given) -> AsyncIterator[Inspector]:
    """Raises UserError if Redis does not let us in, Unavailable if it does not answer."""
    address, policy = plan_address(given), ReplicaPolicy()
    password = resolve_reference("--sessions-password", given["sessions_password"], os.environ)
    client = open_client(address, password, given["sessions_ca"], policy.store_s)
    inspector = Inspector(client, given["sessions_prefix"], policy)
    try:
        yield inspector
    except StoreUnavailable as error:
        told = unusable(error, address, has_password=bool(password), otherwise=UNUSABLE_HINT)
        if told.code != error.code:
            raise told from None
        if (refusal := refusal_of(error)) is not None:
            raise refusal from None
        raise Unavailable(told.message, code=told.code, hint=told.hint) from error
    finally:
        await inspector.aclose()


async def _list(inspector: Inspector, given: Given) -> None:
    long, as_json = given["long"], given["as_json"]
    table = Rolling(HEAD, EXPENDABLE, get_terminal_size().columns if sys.stdout.isatty() else None)
    is_empty = True
    async with aclosing(inspector.pages(given["server"])) as pages:
        async for page in pages:
            is_empty, now = False, time.time()
            if as_json:
                lines = [json.dumps(as_values(seen, now, long=long)) for seen in page]
            else:
                lines = table.add([row(seen, long=long) for seen in page])
            click.echo("\n".join(lines))
    if is_empty and not as_json:
        of = f" of {given['server']}" if given["server"] else ""
        click.echo(f"There are no sessions{of} with the prefix {given['sessions_prefix']}.")


async def _show(inspector: Inspector, given: Given) -> None:
    seen = await inspector.find(given["id"], given["server"])
    details = await inspector.details(seen)
    about = detailed(seen, details, time.time(), long=given["long"])
    if given["as_json"]:
        click.echo(json.dumps(about, indent=2))
        return
    for title, text in described(about):
        click.echo(f"{title + ':' if title else '':12} {printable(text)}")


async def _end(inspector: Inspector, given: Given, key: str | None) -> None:
    seen = await inspector.find(given["id"], given["server"])
    ending = await inspector.end(seen, key)
    if given["as_json"]:
        click.echo(json.dumps(_ended(seen, ending), indent=2))
    else:
        click.echo(_ended_in_words(seen, ending))
    if ending.untold:
        tell("warning", f"{printable(ending.owner.shown)} does not know yet: {ending.untold}")
        tell(
            "note",
            "who reaches it may be served until it next writes down that the session was used, for a "
            "minute at most; the process stays until then, or until it is idle",
        )


def _ended(seen: Seen, ending: Ending) -> dict[str, Any]:
    owner = ending.owner
    return {
        "server": seen.server,
        "id": seen.short_id,
        "owner": owner.name or None,
        "host": owner.host or None,
        "alive": owner.is_alive,
        "told": owner.is_alive and not ending.untold,
        "reason": ending.untold or None,
    }


def _ended_in_words(seen: Seen, ending: Ending) -> str:
    owner, what = ending.owner, f"Session {seen.short_id} of {seen.server} has ended"
    if not owner.is_alive:
        return f"{what}; no replica had it."
    return f"{what}." if ending.untold else f"{what}; {printable(owner.shown)} has let go of it."
