"""Many connections to Mooring's relay at once: `python -m bench.relay_peer.crowd WHAT PORT < TOKENS`.

The first line of its input has a token for each connection: agents have one each, clients may share one. It
says what it has done as lines of JSON, and ends with its input.

| what | |
|---|---|
| `idle-clients`, `idle-agents` | connect, say `{"connected": N}`, and do nothing but answer |
| `churn` | come and go, one after another on each of `AT_ONCE` lanes; a quarter of them without a word |
| `herd` | agents that come back by the product's rules; `{"all_at": …}` each time that all are there |
"""

import asyncio
import json
import os
import random
import sys
import time
import traceback
from contextlib import suppress

import uvloop

from bench.relay_peer.sockets import BINARY, Socket, opened
from bench.relay_peer.ways import SERVER, LinkEnd, linked
from mooring.relay.backoff import Backoff
from mooring.relay.envelope import Kind, encode, read_json, write_json
from mooring.relay.policy import AgentPolicy
from mooring.relay.words import Goodbye, Restart

AT_ONCE = 32
RUDE = 4
"""One in so many goes without a word, and is remembered for the time of the grace."""
LOOK_S = 0.05


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


async def connected(port: int, token: str, *, is_agent: bool) -> Socket:
    socket = await opened(port, "/v1/server" if is_agent else "/v1/client", token)
    await linked(socket, (SERVER,) if is_agent else ())
    return socket


async def idle(port: int, tokens: list[str], *, is_agent: bool) -> list[Socket]:
    """All of them, that answer and do nothing else."""
    left = list(tokens)
    sockets: list[Socket] = []

    async def lane() -> None:
        while left:
            sockets.append(await connected(port, left.pop(), is_agent=is_agent))
            LinkEnd(sockets[-1])

    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))
    say(connected=len(sockets))
    return sockets


async def churn(port: int, tokens: list[str]) -> None:
    left = list(enumerate(tokens))

    async def lane() -> None:
        while left:
            number, token = left.pop()
            socket = await connected(port, token, is_agent=False)
            if number % RUDE:
                socket.send(BINARY, encode(Kind.GOODBYE, payload=write_json(Goodbye())))
            else:
                socket.transport.abort()
            await socket.lost

    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))
    say(came_and_went=len(tokens))


class Sheep:
    """An agent, as bare as it can be; when to come back it decides as the product's does."""

    def __init__(self, port: int, token: str) -> None:
        self.socket: Socket | None = None
        self._port = port
        self._token = token
        self._backoff = Backoff(AgentPolicy(), random.random)
        self._minimum_s = 0.0

    @property
    def is_connected(self) -> bool:
        return self.socket is not None and not self.socket.lost.done()

    async def run(self) -> None:
        while True:
            with suppress(OSError, TimeoutError):  # it is not there, or not yet
                await self._live()
            minimum_s, self._minimum_s = self._minimum_s, 0.0
            await asyncio.sleep(self._backoff.next_s(minimum_s))

    async def _live(self) -> None:
        self.socket = await connected(self._port, self._token, is_agent=True)
        LinkEnd(self.socket).on_word = self._hear
        await self.socket.lost

    def _hear(self, kind: int, payload: bytes) -> None:
        if kind == Kind.RESTART:
            self._minimum_s = read_json(payload, Restart).reconnect_in_ms / 1000


async def herd(port: int, tokens: list[str]) -> None:
    """Until somebody ends us."""
    flock = [Sheep(port, token) for token in tokens]
    running = []
    for one in flock:
        running.append(asyncio.create_task(one.run()))
        await asyncio.sleep(0.001)  # how they come at first is not what is measured
    was_whole = False
    while True:
        is_whole = all(one.is_connected for one in flock)
        if is_whole and not was_whole:
            say(all_at=time.monotonic())
        was_whole = is_whole
        await asyncio.sleep(LOOK_S)


async def main(what: str, port: int) -> None:
    tokens = (await asyncio.to_thread(sys.stdin.readline)).split()
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    doing = asyncio.create_task(_doing(what, port, tokens))
    done, _ = await asyncio.wait([ended, doing], return_when=asyncio.FIRST_COMPLETED)
    if doing in done:
        if doing.exception() is not None:
            traceback.print_exception(doing.exception())
            os._exit(1)  # whoever waits for our input to end would wait for us
        await ended


async def _doing(what: str, port: int, tokens: list[str]) -> None:
    if what == "herd":
        await herd(port, tokens)
    elif what == "churn":
        await churn(port, tokens)
    else:
        await idle(port, tokens, is_agent=what == "idle-agents")


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
