"""The demo server: its table of methods, and its I/O.

One thread, one blocking read; `select` only while a timer runs.
"""

from __future__ import annotations

import os
import select
import time

from mooring import __version__
from mooring.demo import content, tools
from mooring.demo.conversation import INVALID_PARAMS, LEVELS, Conversation, RpcError

TYPE_CHECKING = False  # see conversation.py
if TYPE_CHECKING:
    from mooring.demo.conversation import Handler, Json

__all__ = ["METHODS", "VERSIONS", "serve"]

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

STDIN = 0
STDOUT = 1
READ_BYTES = 1 << 16  # what a pipe holds


def serve() -> None:
    """Answer what comes on stdin until it ends."""
    conversation = Conversation(METHODS)
    try:
        _converse(conversation)
    except tools.Death as death:
        _write(conversation.take_output())  # answers given before it are not part of the accident
        death.die()
    _write(conversation.take_output())


def _converse(conversation: Conversation) -> None:
    unfinished: list[bytes] = []
    while True:
        due = conversation.run_due(time.monotonic())
        _write(conversation.take_output())
        if due is not None:
            ready, _, _ = select.select([STDIN], [], [], max(0.0, due - time.monotonic()))
            if not ready:
                continue
        chunk = os.read(STDIN, READ_BYTES)
        if not chunk:
            break
        first, newline, rest = chunk.partition(b"\n")
        unfinished.append(first)
        if not newline:
            continue
        lines = [b"".join(unfinished), *rest.split(b"\n")]
        unfinished = [lines.pop()]
        for line in lines:
            conversation.receive(line)
    conversation.receive(b"".join(unfinished))


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(STDOUT, view) :]


def _initialize(conversation: Conversation, params: Json) -> Json:
    asked_for, capabilities = params.get("protocolVersion"), params.get("capabilities")
    if (
        not isinstance(asked_for, str)
        or not isinstance(capabilities, dict)
        or not isinstance(params.get("clientInfo"), dict)
    ):
        raise RpcError(INVALID_PARAMS, "initialize needs protocolVersion, capabilities and clientInfo")
    conversation.version = asked_for if asked_for in VERSIONS else VERSIONS[-1]
    conversation.client = capabilities
    return {
        "protocolVersion": conversation.version,
        "capabilities": {
            "completions": {},
            "logging": {},
            "prompts": {},
            "resources": {"subscribe": True},
            "tools": {"listChanged": True},
        },
        "serverInfo": {"name": "mooring-demo", "title": "Mooring demo", "version": __version__},
        "instructions": "Tools that misbehave on request. `counter` tells whether the process is the same.",
    }


def _ping(_conversation: Conversation, _params: Json) -> Json:
    return {}


def _set_level(conversation: Conversation, params: Json) -> Json:
    if params.get("level") not in LEVELS:
        raise RpcError(INVALID_PARAMS, f"level is one of {', '.join(LEVELS)}")
    conversation.level = LEVELS.index(params["level"])
    return {}


METHODS: dict[str, Handler] = {
    "initialize": _initialize,
    "ping": _ping,
    "logging/setLevel": _set_level,
    **tools.METHODS,
    **content.METHODS,
}
