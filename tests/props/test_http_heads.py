"""A head that is known means what the parser makes of it: nothing else, and never more."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.http import heads
from mooring.http import reader as reader_module
from mooring.http.heads import KnownHeads
from mooring.http.limits import Limits
from mooring.http.problems import Refusal
from mooring.http.reader import RequestReader
from mooring.wire.http import Request

LIMITS = Limits()


def read(pieces: list[bytes], known: KnownHeads, limits: Limits = LIMITS) -> list[Any]:
    seen: list[Any] = []

    def on_request(request: Request, keep_alive: bool, is_http_1_0: bool) -> None:
        seen.append((request.method, request.path, request.headers, request.body, keep_alive, is_http_1_0))

    reader = RequestReader(limits, on_request, lambda: None, known=known)
    try:
        for piece in pieces:
            reader.feed(piece)
    except Refusal as refusal:
        seen.append(refusal.status)
    return seen


def without_length(seen: list[Any]) -> list[Any]:
    """A shared head keeps the number it was first seen with; how long a body is says the body."""
    return [
        (*one[:2], [f for f in one[2] if f[0] != b"content-length"], *one[3:])
        if isinstance(one, tuple)
        else one
        for one in seen
    ]


FIELDS = [
    b"Host: localhost\r\n",
    b"Content-Type: application/json\r\n",
    b"Accept: a\r\n",
    b"accept: b\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: 03\r\n",
    b"Content-Length: +3\r\n",
    b"Content-Length: 4\r\n",
    b"content-length: 12\r\n",
    b"CONTENT-LENGTH: 3\r\n",
    b"Content-Length:3\r\n",
    b"Content-Length: 3\n",
    b"X: \r\n\tContent-Length: 3\r\n",
    b"\r\n",
]
LINES = [
    b"POST /mcp HTTP/1.1\r\n",
    b"POST /a HTTP/1.0\r\n",
    b"GET / HTTP/1.1\r\n",
    b"\r\nPOST / HTTP/1.1\r\n",
]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    fields = draw(st.lists(st.sampled_from(FIELDS), max_size=5))
    body = draw(st.sampled_from([b"", b"abc", b"abcd", b"0\r\n\r\n", b"x" * 12, b"3\r\nabc\r\n0\r\n\r\n"]))
    return b"".join([draw(st.sampled_from(LINES)), b"Host: x\r\n", *fields, b"\r\n", body])


@given(st.lists(requests(), min_size=1, max_size=6))
def test_known_or_not_the_same_bytes_are_the_same_requests(sent: list[bytes]) -> None:
    known = KnownHeads()
    for _ in range(2):
        for data in sent:
            assert without_length(read([data], known)) == without_length(read([data], KnownHeads()))
        assert without_length(read(sent, known)) == without_length(read(sent, KnownHeads()))
        together = b"".join(sent)
        assert without_length(read([together], known)) == without_length(read([together], KnownHeads()))


def post(body: bytes, head: bytes = b"Host: x\r\n") -> bytes:
    return b"POST /mcp HTTP/1.1\r\n%bContent-Length: %d\r\nAccept: a\r\n\r\n%b" % (head, len(body), body)


def test_a_head_is_remembered_whatever_the_length_of_its_body() -> None:
    known = KnownHeads()
    seen = read([post(b"1"), post(b"22" * 50), post(b"1")], known)
    assert [one[3] for one in seen] == [b"1", b"22" * 50, b"1"]
    assert len(known) == 1


def test_two_requests_in_one_read_are_two_each_time() -> None:
    """The first is spelled so that only the second one's length is seen when a key is looked for."""
    known = KnownHeads()
    first = b"POST /mcp HTTP/1.1\r\nHost: x\r\nCONTENT-LENGTH: 5\r\n\r\nfirst"
    for begin in (first, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"):
        for _ in range(3):
            assert [one[3] for one in read([begin + post(b"second")], known)][1:] == [b"second"]


def test_an_idle_reader_keeps_nothing_of_what_it_read() -> None:
    reader = RequestReader(LIMITS, lambda *_: None, lambda: None)
    reader.feed(post(b"1", b"Host: x\r\nX: %b\r\n" % (b"x" * 30_000)))
    reader.feed(post(b"1"))
    reader.feed(post(b"1"))
    reader.rest()
    kept = [
        getattr(reader, name, None) for name in ("_head", "_fields", "_target", "_whole", "_last", "_body")
    ]
    assert kept == [reader_module.NO_HEAD, {}, b"", b"", None, []]


def test_a_known_head_does_not_lift_the_bound_of_a_body() -> None:
    known = KnownHeads()
    assert read([post(b"1"), post(b"12345")], known, Limits(max_body_bytes=4))[1:] == [413]


def test_the_oldest_head_gives_way_and_a_large_one_is_not_kept() -> None:
    known = KnownHeads()
    for number in range(heads.MAX_HEADS + 5):
        read([post(b"1", b"Host: x%d\r\n" % number)], known)
    assert len(known) == heads.MAX_HEADS
    assert known.find(post(b"1", b"Host: x4\r\n")) is None
    assert known.find(post(b"1", b"Host: x5\r\n")) is not None
    other = KnownHeads()
    read([post(b"1", b"Host: x\r\nX: %b\r\n" % (b"x" * heads.MAX_HEAD_BYTES))], other)
    assert len(other) == 0
