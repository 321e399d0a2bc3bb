"""Any bytes, in any pieces, answered at any time and in any order: one connection on a fake transport.

An input is a script and what the peer sends. Its first byte says how long the script is, and whether
the rest is sent as it is or is a tape of `tests.http_bytes`.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from mooring.http.connection import Connection
from mooring.http.house import House
from mooring.http.limits import Limits
from mooring.http.problems import Refusal
from mooring.http.reader import BODY, HEAD_OVERHEAD_BYTES, RequestReader
from mooring.wire.http import Exchange, Request, Response
from tests.fuzz.loop import run
from tests.http_bytes import Tape, stream

TIGHT = Limits(
    max_body_bytes=300,
    max_header_bytes=600,
    max_target_bytes=120,
    max_headers=12,
    max_pipelined=3,
    max_unfinished_bytes=400,
    keep_alive_timeout_s=1e9,
    linger_bytes=1000,
)
ROOMY = Limits(max_body_bytes=300, max_target_bytes=120, max_headers=12)
"""For what depends on how bytes are split only beyond the limit of a head."""
MOST_HELD = TIGHT.max_body_bytes + TIGHT.max_header_bytes + TIGHT.max_target_bytes + HEAD_OVERHEAD_BYTES
"""Of one unfinished request; the read in which it began, and the last one, come on top."""
MOST_TURNS = 500
"""Of the loop, until an input has come to rest: it takes one or two for each request in it."""


def check(data: bytes) -> None:
    script, wire = _divided(data)
    pieces = _pieces(script, wire)
    whole = _read([wire])
    assert _read(pieces) == whole, "the split matters"
    assert _read([wire[at : at + 1] for at in range(len(wire))]) == whole, "the split matters"
    run(_Scene(script, wire).play())


def _divided(data: bytes) -> tuple[bytes, bytes]:
    first = data[0] if data else 0
    end = 1 + first // 2 % 64
    rest = data[end:]
    return data[1:end], stream(Tape(rest)) if first % 2 else rest


def _pieces(script: bytes, wire: bytes) -> list[bytes]:
    pieces: list[bytes] = []
    for size in script:
        pieces.append(wire[: size + 1])
        wire = wire[size + 1 :]
    return [piece for piece in (*pieces, wire) if piece]


def _read(pieces: list[bytes]) -> list[Any]:
    seen: list[Any] = []

    def on_request(request: Request, keep_alive: bool, is_http_1_0: bool) -> None:
        # How long a body is says the body: a head that was seen before has the length from then.
        headers = [field for field in request.headers if field[0] != b"content-length"]
        seen.append((request.method, request.path, request.query, headers, request.body, keep_alive))

    reader = RequestReader(ROOMY, on_request, lambda: seen.append("expects"))
    try:
        for piece in pieces:
            reader.feed(piece)
    except Refusal:
        # Which of several faults is seen first may depend on the split; that there is one may not.
        seen.append("refused")
    return seen


class _Transport:
    """Keeps what is written, and tells of its end from the loop, as real ones do."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self.sent = b""
        self.reading = True
        self.closing = False
        self.aborted = False
        self.buffered = 0
        self._on_lost = on_lost

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("127.0.0.1", 1), "socket": self}.get(name)

    def setsockopt(self, *option: object) -> None: ...
    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        assert not self.closing

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        if not self.closing:
            self.sent += data

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self._on_lost)

    def abort(self) -> None:
        self.aborted = True
        self.close()


class _Held:
    """A request that is with the app, and what becomes of it."""

    def __init__(self, exchange: Exchange, number: int) -> None:
        self.exchange = exchange
        self.is_answered = False
        self.told_of_end = 0
        self._is_streaming = False
        self._headers = [(b"x-number", b"%d" % number)]
        exchange.on_disconnect = self._on_disconnect

    def _on_disconnect(self) -> None:
        assert not self.is_answered and self.exchange.disconnected
        self.told_of_end += 1

    def answer(self, *, with_body: bool) -> None:
        # After the peer has gone this does nothing, and the app will still be told so.
        self.is_answered = not self.exchange.disconnected
        if self._is_streaming:
            self.exchange.end()
        elif with_body:
            self.exchange.respond(Response(200, b"whole", self._headers))
        else:
            self.exchange.respond(Response(204, b"", self._headers))

    def stream(self) -> None:
        if self._is_streaming:
            self.exchange.write(b"piece")
        else:
            self.exchange.start(200, self._headers)
            self._is_streaming = True

    def abort(self) -> None:
        self.is_answered = not self.exchange.disconnected
        self.exchange.abort()


class _Scene:
    """One peer, one connection, one app."""

    def __init__(self, script: bytes, wire: bytes) -> None:
        self._script = script
        self._wire = wire
        self._all: list[_Held] = []
        self._held: list[_Held] = []
        self._longest = 0
        self._now = 0.0
        self._lost = False
        self._ended = False
        self._owes_answers = True
        self._house = House(self._app, TIGHT, lambda: self._now)
        self._connection = Connection(self._house)
        self._transport = _Transport(self._on_lost)

    async def play(self) -> None:
        self._connection.connection_made(self._transport)  # type: ignore[arg-type]
        for step in self._script:
            self._act(step % 8, step // 8)
            await asyncio.sleep(0)
        await self._settle()
        if not self._lost:
            over = self._connection._input_over
            assert self._connection._closing or not over, "nothing more is read, and it is not closed"
            self._transport.close()
            await asyncio.sleep(0)
        self._check_answers()
        assert self._house.budget.taken_bytes == 0, "bytes of a body are still counted"
        for held in self._all:
            assert held.told_of_end == (not held.is_answered), "not told once of the end"

    def _app(self, exchange: Exchange) -> None:
        assert len(self._held) < TIGHT.max_pipelined, "more at once than allowed"
        held = _Held(exchange, len(self._all))
        self._all.append(held)
        self._held.append(held)

    def _on_lost(self) -> None:
        self._lost = True
        self._connection.connection_lost(None)

    def _act(self, deed: int, much: int) -> None:
        if self._lost:
            return
        if deed <= 2:
            self._feed(8 * much + 1)
        elif deed == 3 and self._held:
            self._held.pop(much % len(self._held)).answer(with_body=much % 2 == 0)
        elif deed == 4 and self._held:
            self._held[much % len(self._held)].stream()
        elif deed == 5:
            self._change_pace()
        elif deed == 6:
            # Whoever does not read for too long is cut off.
            self._owes_answers &= not self._transport.buffered
            self._now += much
            self._connection.sweep(self._now)
        elif deed == 7 and much == 31:
            self._end()
        elif deed == 7 and much == 30 and self._held:
            self._owes_answers = False
            self._held.pop().abort()

    def _feed(self, count: int) -> None:
        transport = self._transport
        if transport.reading and not transport.closing and not self._ended and self._wire:
            piece, self._wire = self._wire[:count], self._wire[count:]
            self._longest = max(self._longest, len(piece))
            self._connection.data_received(piece)
            assert self._held_bytes() <= MOST_HELD + 2 * self._longest, "too much is held"

    def _held_bytes(self) -> int:
        reader = self._connection._reader
        head = reader._head
        fields = sum(len(name) + len(value) for name, value in [*head.fields.items(), *head.repeated])
        body = sum(map(len, reader._body))
        counted = self._house.budget.taken_bytes - self._connection._waiting_bytes
        assert reader.state != BODY or counted == body, "a body is not counted"
        return len(reader._target) + fields + body + len(self._connection._unfed)

    def _change_pace(self) -> None:
        """The peer stops reading what it is sent, or begins again."""
        if self._transport.buffered:
            self._transport.buffered = 0
            self._connection.resume_writing()
        else:
            self._transport.buffered = TIGHT.write_high_water_bytes
            self._connection.pause_writing()

    def _end(self) -> None:
        """The peer sends no more; it still gets whole answers, but no streams."""
        if self._transport.reading and not self._ended and not self._transport.closing:
            self._ended, self._owes_answers, self._wire = True, False, b""
            if not self._connection.eof_received():
                self._transport.close()

    async def _settle(self) -> None:
        """The peer sends the rest and reads everything, the app answers everything."""
        if self._transport.buffered:
            self._change_pace()
        for _ in range(MOST_TURNS):
            await asyncio.sleep(0)
            if self._lost or not (self._wire or self._held or self._connection._waiting):
                return
            self._feed(len(self._wire))
            if self._held:
                self._held.pop(0).answer(with_body=True)
        raise AssertionError("it does not come to rest")

    def _check_answers(self) -> None:
        answers = list(_answers(self._transport.sent, [held.exchange.request.method for held in self._all]))
        numbers = [answer.number for answer in answers if answer.status != 100]
        refusals = numbers[numbers.index(None) :] if None in numbers else []
        assert len(refusals) <= 1, "answers behind a refusal"
        assert numbers[: len(numbers) - len(refusals)] == [*range(len(numbers) - len(refusals))], "disorder"
        for answer, following in pairwise(answers):
            assert not answer.is_last, "answers behind the last one"
            assert answer.status != 100 or self._expected(following), "leave that nobody waited for"
        if self._owes_answers and not any(answer.ends_by_close for answer in answers):
            assert len(numbers) - len(refusals) == len(self._all), "a request without an answer"
            is_waiting = self._connection._reader.state == BODY
            assert is_waiting or answers[-1:] != [LEAVE], "leave that nobody waits for"

    def _expected(self, answer: "_Answer") -> bool:
        """Was leave to send a body asked for by the request that got this answer?"""
        if answer.number is None:
            return answer.status != 100  # the body was refused after all
        return self._all[answer.number].exchange.request.header(b"expect") is not None


class _Answer(NamedTuple):
    status: int
    number: int | None
    is_last: bool
    """It says so."""
    ends_by_close: bool
    """A stream of HTTP/1.0: what else was asked gets no answer."""


LEAVE = _Answer(100, None, is_last=False, ends_by_close=False)


def _answers(sent: bytes, methods: list[str]) -> Iterator[_Answer]:
    """What a peer reads, strictly; `methods` are those of its requests."""
    rest = sent
    asked = iter(methods)
    while rest:
        head, blank, rest = rest.partition(b"\r\n\r\n")
        assert blank, "a head without an end"
        line, *lines = head.split(b"\r\n")
        assert line.startswith(b"HTTP/1.1 ")
        fields = dict(field.split(b": ", 1) for field in lines)
        assert len(fields) == len(lines), "a field twice"
        status, ends_by_close = int(line[9:12]), False
        if status != 100:
            is_bodiless = next(asked, "") == "HEAD" or status == 204
            length = fields.get(b"content-length")
            if length is not None and not is_bodiless:
                assert len(rest) >= int(length), "an answer without its end"
                rest = rest[int(length) :]
            elif fields.get(b"transfer-encoding") == b"chunked" and not is_bodiless:
                rest = _behind_chunks(rest)
            elif not is_bodiless:
                rest, ends_by_close = b"", True
        number = fields.get(b"x-number")
        is_last = fields.get(b"connection") == b"close"
        yield _Answer(status, None if number is None else int(number), is_last, ends_by_close)


def _behind_chunks(rest: bytes) -> bytes:
    """What follows a stream; nothing if it was cut."""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        chunk, rest = rest[: int(size, 16)], rest[int(size, 16) :]
        assert rest.startswith(b"\r\n"), f"a chunk without its end: {chunk!r}"
        rest = rest[2:]
        if not chunk:
            break
    return rest
