"""An instance that a test speaks for, in its own loop: to try every order of events."""

import asyncio
import json
import time
from typing import Any

from mooring.errors import Unavailable
from mooring.proxy.call_errors import Failure
from mooring.proxy.health import Health
from mooring.proxy.noise import Noise
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Channel, ExitLike, Receiver
from mooring.proxy.stats import Stats
from mooring.proxy.trunks import Trunks
from mooring.wire.budget import Budget
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.lines import LongLine
from mooring.wire.memory import Handshake


class Pipe:
    """An instance that answers `initialize` and pings by itself, and the rest when it is told to."""

    pid = 1
    writable = True
    consumed = 0

    def __init__(self) -> None:
        self.open: list[dict[str, Any]] = []
        self.cancelled: list[int] = []

    def attach(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, line: bytes) -> int:
        message = json.loads(line)
        if message.get("method") == "initialize":
            self.say(id=message["id"], result={"protocolVersion": "2025-11-25", "capabilities": {}})
        elif message.get("method") == "ping":
            self.say(id=message["id"], result={})
        elif message.get("method") == "notifications/cancelled":
            self.cancelled.append(message["params"]["requestId"])
        elif "id" in message:
            self.open.append(message)
        return 0

    def say(self, **message: Any) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode()
        asyncio.get_running_loop().call_soon(self.receiver.on_line, line)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    is_paused = False


class OnePipe:
    """A backend with a single instance."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def refusal(self) -> Unavailable | None:
        return None

    async def acquire(self, *, expendable: bool = False) -> Channel:
        return self._pipe

    def spoke(self, channel: Channel) -> None: ...

    def release(self, channel: Channel, reason: str, *, failed: bool = False) -> None: ...

    def doubt_handshakes(self) -> bool:
        return False

    def take_leave(self, backend: str, upstream: str, handshake: Handshake) -> None: ...
    def settle(self) -> None: ...


class Ears:
    """Whoever hears an instance."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def on_line(self, line: bytes) -> None:
        self.heard.append(line)

    def on_answer(self, response: Envelope, line: bytes) -> None:
        self.heard.append(line)

    def on_failed(self, id: Id, failure: Failure) -> None:
        self.heard.append(failure.response(id))

    def on_related(self, line: bytes, id: Id) -> None:
        self.heard.append(line)

    def on_long_line(self, line: LongLine) -> None: ...

    def on_writable(self) -> None: ...

    def on_gone(self, exit: ExitLike) -> None: ...


def trunks_over(pipe: Pipe, in_flight: Budget | None = None) -> Trunks:
    """Trunks that have no other instance."""
    policy = SessionPolicy()
    return Trunks(
        OnePipe(pipe),
        policy=policy,
        stats=Stats(),
        noise=Noise("test"),
        health=Health(policy, "test"),
        in_flight=in_flight or Budget(policy.budget_bytes, 1),
        clock=time.monotonic,
    )
