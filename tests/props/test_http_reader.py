"""Any split of the bytes gives the same requests and the same answers. (What h11 says: test_http_h11.)"""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.http.connection import Connection
from mooring.http.house import House
from mooring.http.limits import Limits
from mooring.http.problems import Refusal
from mooring.http.reader import RequestReader
from mooring.wire.http import Exchange, Request, Response

LIMITS = Limits(max_body_bytes=500, max_header_bytes=2000, max_target_bytes=200)

token = st.text("abcXYZ09-_!#$", min_size=1, max_size=12)
value = st.binary(max_size=30).map(
    lambda raw: bytes(byte for byte in raw if byte == 9 or (byte >= 32 and byte != 127)).strip()
)
fields = st.lists(st.tuples(token.map(lambda name: ("X-" + name).encode()), value), max_size=5)
path = st.text("abc/%20.~", max_size=10).map(lambda text: "/" + text.replace("%", "%41"))
query = st.none() | st.text("abc=&?/%", max_size=10)
methods = st.sampled_from(["GET", "POST", "DELETE", "OPTIONS", "PUT"])


@st.composite
def request_bytes(draw: st.DrawFn) -> bytes:
    target = draw(path) + ("" if (asked := draw(query)) is None else "?" + asked)
    head = f"{draw(methods)} {target} HTTP/1.1\r\nHost: a\r\n".encode()
    for name, content in draw(fields):
        head += name + draw(st.sampled_from([b":", b": ", b":\t "])) + content + b"\r\n"
    body = draw(st.binary(max_size=60))
    kind = draw(st.sampled_from(["none", "length", "chunked", "upgrade", "upgrade chunked"]))
    if "upgrade" in kind:
        head += b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    if "chunked" in kind:
        cuts = draw(st.integers(1, 20))
        pieces = [body[at : at + cuts] for at in range(0, len(body), cuts)]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        trailer = draw(st.sampled_from([b"", b"X-Trailer: t\r\n"]))
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailer + b"\r\n"
    if kind == "none":
        return head + b"\r\n"
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [piece for piece in [*pieces, data[at:]] if piece]


def read(pieces: list[bytes], limits: Limits = LIMITS) -> list[Any]:
    """What the reader makes of it: requests as tuples, then the refusal's status if there is one."""
    seen: list[Any] = []

    def on_request(request: Request, keep_alive: bool, is_http_1_0: bool) -> None:
        seen.append(
            (
                request.method,
                request.path,
                request.query,
                request.headers,
                request.body,
                keep_alive,
                is_http_1_0,
            )
        )

    reader = RequestReader(limits, on_request, lambda: None)
    try:
        for piece in pieces:
            reader.feed(piece)
    except Refusal as refusal:
        seen.append(refusal.status)
    return seen


sizes = st.lists(st.integers(1, 40), max_size=30)


@given(st.lists(request_bytes(), min_size=1, max_size=4), sizes)
def test_any_split_gives_the_same_requests(requests: list[bytes], cuts: list[int]) -> None:
    data = b"".join(requests)
    whole = read([data])
    assert len(whole) == len(requests)
    assert read(split(data, cuts)) == whole
    assert read([data[at : at + 1] for at in range(len(data))]) == whole


def test_limits_of_a_head_are_exact_however_it_is_split() -> None:
    target = b"/" + b"t" * (LIMITS.max_target_bytes - 1)
    host = b"Host: a\r\n"
    for excess, outcome in ((0, []), (1, [431])):
        value = b"v" * (LIMITS.max_header_bytes - len(host) - len(b"X: \r\n") + excess)
        data = b"OPTIONS " + target + b" HTTP/1.1\r\n" + host + b"X: " + value + b"\r\n\r\n"
        for pieces in ([data], [data[:1], data[1:]], [data[at : at + 1] for at in range(len(data))]):
            assert [end for end in read(pieces) if isinstance(end, int)] == outcome


noise = st.sampled_from(
    [b"\r\n", b"\n", b"\r", b" ", b"\0", b"\x01", b":", b"#", b"%", b"\xff", b"HTTP/1.0", b"GET / ",
     b"Host: b\r\n", b"Content-Length: 3\r\n", b"0\r\n\r\n", b"Transfer-Encoding: chunked\r\n",
     b"Transfer-Encoding: gzip, chunked\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n"]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = b"".join(draw(st.lists(request_bytes(), min_size=1, max_size=3)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(noise) + data[at + draw(st.integers(0, 3)) :]
    return data


@given(damaged(), sizes)
def test_any_split_of_damaged_bytes_gives_the_same_end(data: bytes, cuts: list[int]) -> None:
    assert read(split(data, cuts)) == read([data])


class FakeTransport:
    """Keeps what was written."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True


def answered(pieces: list[bytes]) -> tuple[bytes, bool]:
    def app(exchange: Exchange) -> None:
        request = exchange.request
        exchange.respond(Response(200, request.path.encode() + request.body))

    async def run() -> tuple[bytes, bool]:
        transport = FakeTransport()
        connection = Connection(House(app, LIMITS, lambda: 0.0))
        connection.connection_made(transport)  # type: ignore[arg-type]
        for piece in pieces:
            connection.data_received(piece)
        sent = b"\r\n".join(line for line in transport.sent.split(b"\r\n") if not line.startswith(b"date: "))
        return sent, transport.closed

    return asyncio.run(run())


@given(damaged(), sizes)
def test_any_split_gives_the_same_answers(data: bytes, cuts: list[int]) -> None:
    assert answered(split(data, cuts)) == answered([data])
