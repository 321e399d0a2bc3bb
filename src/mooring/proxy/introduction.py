"""Telling a new instance what its predecessor knew, and seeing whether it can take over."""

import logging
from collections.abc import Callable

from mooring.errors import RemoteProtocolError
from mooring.proxy.own_requests import OwnRequests
from mooring.proxy.ports import Channel, named
from mooring.wire.jsonrpc import Envelope
from mooring.wire.memory import Memory, expect_handshake

__all__ = ["introduce"]

log = logging.getLogger("mooring.session")


async def introduce(
    channel: Channel,
    memory: Memory,
    requests: OwnRequests,
    id_prefix: str,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Replay the memory, each step answered before the next. Nothing to do before the first handshake.

    `check` is called before each step, and raises if no more is to be said.

    Raises:
        ServerFailed: this instance cannot be used; another may.
        RemoteProtocolError: the server has become another one (`version_changed`).
    """
    for n, step in enumerate(memory.replay(id_prefix)):
        check()
        if step.id is None:
            channel.send(step.line)
            continue
        response = await requests.ask(channel, step.line, step.id)
        if n == 0:
            _compare(response, memory, channel.pid)
        elif response.error:
            log.warning("%s refused what its predecessor had accepted: %s", named(channel.pid), step.id)


def _compare(response: Envelope, memory: Memory, pid: int) -> None:
    """Is the new instance what the client was promised?"""
    fresh, known = expect_handshake(response), memory.handshake
    if known is None:
        memory.introduced(fresh, bytes(response.result))
        return
    if fresh.protocol_version != known.protocol_version:
        text = f"the server now speaks {fresh.protocol_version}, not {known.protocol_version}"
        raise RemoteProtocolError(text, code="version_changed")
    if fresh.capabilities != known.capabilities:
        log.warning(
            "%s has other capabilities than the client was told of; the session goes on",
            named(pid),
            extra={"event": "capabilities_changed", "pid": pid},
        )
