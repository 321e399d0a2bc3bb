"""`mooring stdio URL`: an MCP server for a client that can only launch a command, and really one elsewhere.

The shutdown contract, as far as there is no listener:

1. The client's stdin ends, its stdout is closed, or a signal comes: new requests are refused (there can
   be some after a signal), calls in flight finish. Their questions to the client still find answers.
2. At the deadline, or at a second signal, every remaining call gets an error on stdout.
3. The session is ended, and everything that runs.

Exit statuses: 0 ended as asked · 2 usage or configuration · 3 a call was cut off at the deadline.
"""

import asyncio
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from mooring.host.credentials import StoredCredentials, warn_of_listeners
from mooring.host.loops import run_with_signals
from mooring.host.standard_streams import LineInput, LineOutput
from mooring.host.stop import Stop
from mooring.host.waits import first_of, until
from mooring.http.client import Client
from mooring.http.client_proxies import Proxies
from mooring.http.origin import parse_url
from mooring.remote.conversation import Conversation
from mooring.remote.endpoint import Endpoint
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach
from mooring.wire.http import Headers

__all__ = ["StdioOptions", "main", "run"]

log = logging.getLogger("mooring.host")

LOST_CALL = 3
FLUSH_S = 1.0
"""How long the client may take to read the last answers."""


@dataclass(frozen=True, kw_only=True)
class StdioOptions:
    """Everything `mooring stdio` was asked to do."""

    url: str
    headers: Headers = field(default_factory=list)
    """Beside those of the protocol; their values may be secrets."""
    token_file: Path | None = None
    ca_file: Path | None = None
    drain_timeout_s: float | None = 25.0
    """None: whoever started us decides how long calls may take."""
    policy: RemotePolicy = field(default_factory=RemotePolicy)
    stdin: int = 0
    stdout: int = 1


def main(options: StdioOptions) -> int:
    """Run until a signal says stop; returns the exit status."""
    return run_with_signals(lambda stop: run(options, stop))


async def run(options: StdioOptions, stop: Stop) -> int:
    """Serve the client on stdin and stdout until it leaves, or `stop`; returns the exit status.

    Raises UserError for what cannot even begin.
    """
    proxies = Proxies.from_environment(os.environ)
    origin, target = parse_url(options.url, options.ca_file, proxies=proxies)
    credentials = StoredCredentials(options.headers, options.token_file)
    warn_of_listeners(credentials, origin)
    client = Client(origin)
    reach = Reach(client, options.url, options.policy)
    ended, gone = asyncio.Event(), asyncio.Event()
    output = LineOutput(options.stdout, gone.set)
    endpoint = Endpoint(client, target, credentials, options.policy)
    conversation = Conversation(endpoint, reach, output, options.policy)
    lines = LineInput(options.stdin, options.policy.max_message_bytes, conversation.take, ended.set)
    output.on_pressure = lambda much: lines.pause() if much else lines.resume()
    try:
        lines.resume()
        log.debug("ready for %s", options.url, extra={"event": "ready", "url": options.url})
        await first_of(stop.wait_requested(), ended.wait(), gone.wait())
        cause = stop.cause or ("the client closed stdout" if gone.is_set() else "the client closed stdin")
        finishing = _finish(conversation, output, stop, gone, cause=cause, timeout_s=options.drain_timeout_s)
        cut = await finishing
    finally:
        lines.close()
        await conversation.aclose()
        await reach.aclose()
        await client.aclose()
        output.close()
    log.debug("ended: %s", cause, extra={"event": "ended", "cut": cut})
    return LOST_CALL if cut else 0


async def _finish(
    conversation: Conversation,
    output: LineOutput,
    stop: Stop,
    gone: asyncio.Event,
    *,
    cause: str,
    timeout_s: float | None,
) -> int:
    """Steps 1 and 2; returns how many calls were cut off although somebody waited for their answer."""
    # 1
    conversation.refuse_new(cause)
    calls = conversation.calls_in_flight
    if calls and not gone.is_set():
        log.info("%s: calls to finish: %d", cause, calls, extra={"event": "draining", "calls": calls})
    await until(stop, timeout_s, first_of(conversation.wait_quiet(), gone.wait()))
    # 2
    cut = conversation.cut(cause)
    if gone.is_set():
        return 0
    if cut:
        log.warning("calls cut off: %d", cut, extra={"event": "calls_cut", "calls": cut})
    await until(None, FLUSH_S, first_of(output.wait_empty(), gone.wait()))
    return cut
