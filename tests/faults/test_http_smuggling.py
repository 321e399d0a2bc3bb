"""Request smuggling: no request hidden in another reaches the app. See smuggling/README.md."""

import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from mooring.http.limits import Limits
from mooring.wire.http import Exchange, Response
from tests.http_client import Served, get, serving
from tests.support import on_both_loops, within

HIDDEN = get("/smuggled")
LIMITS = Limits(linger_timeout_s=0.1)


class Case(NamedTuple):
    sends: bytes
    answers: list[int]
    sees: list[bytes]


def _bytes(text: str) -> bytes:
    return text.encode("latin-1").replace(b"{hidden}", HIDDEN)


CASES = {
    f"{file.stem}: {name}": Case(
        _bytes(case["sends"]), case["answers"], [_bytes(seen) for seen in case.get("sees", [])]
    )
    for file in sorted((Path(__file__).parent / "smuggling").glob("*.toml"))
    for name, case in tomllib.loads(file.read_text()).items()
}


class Witness:
    """An app that answers everything, and remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def __call__(self, exchange: Exchange) -> None:
        request = exchange.request
        self.seen.append(f"{request.method} {request.path} ".encode() + request.body)
        exchange.respond(Response(200))


async def exchanged(served: Served, *pieces: bytes) -> list[int]:
    """The statuses that come back for what is sent; the peer's side ends there, then ours."""
    peer = await served.peer()
    for piece in pieces:
        peer.send(piece)
        await (await served.peer()).get("/between")  # what was sent has been read by now
    with suppress(OSError):  # what ends a connection may have ended it already
        peer.writer.write_eof()
    answers = await peer.reader.read()
    return [int(status) for status in re.findall(rb"^HTTP/1\.1 (\d{3}) ", answers, re.MULTILINE)]


@pytest.mark.parametrize("name", CASES)
@on_both_loops
async def test_nothing_hidden_reaches_the_app(name: str) -> None:
    case = CASES[name]
    at = case.sends.find(HIDDEN)
    for pieces in ([case.sends], [case.sends[:at], case.sends[at:]]):
        witness = Witness()
        async with serving(witness, limits=LIMITS) as served, within():
            answers = await exchanged(served, *pieces)
            seen = [request for request in witness.seen if request != b"GET /between "]
            assert (answers, seen) == (case.answers, case.sees)


@on_both_loops
async def test_a_connection_goes_on_only_behind_what_was_taken() -> None:
    """A good request right behind each case: it is the next one, or nobody's."""
    for name, case in CASES.items():
        if not case.answers:  # unfinished: what follows would belong to it
            continue
        witness = Witness()
        async with serving(witness, limits=LIMITS) as served, within():
            answers = await exchanged(served, case.sends + get("/next"))
            goes_on = case.answers[-1] == 200 and answers != case.answers
            assert answers == case.answers + [200] * goes_on, name
            assert witness.seen == [*case.sees, *[b"GET /next "] * goes_on, b"GET /between "], name
