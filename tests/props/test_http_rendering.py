"""A request that was read and is written out again is read as the same one."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mooring.http.limits import Limits
from mooring.http.reader import RequestReader
from mooring.http.rendering import render_request
from mooring.wire.http import Request
from tests.props.test_http_reader import LIMITS, request_bytes

FRAMING = (b"content-length", b"transfer-encoding", b"expect")


def read(data: bytes, limits: Limits = LIMITS) -> list[tuple[Request, bool, bool]]:
    seen: list[tuple[Request, bool, bool]] = []
    RequestReader(limits, lambda *request: seen.append(request), lambda: None).feed(data)
    return seen


def told(request: Request, keep_alive: bool, is_http_1_0: bool) -> tuple[Any, ...]:
    fields = sorted(field for field in request.headers if field[0] not in FRAMING)
    offers = request.offers_websocket
    return request.method, request.path, request.query, fields, request.body, keep_alive, is_http_1_0, offers


@given(request_bytes())
def test_written_out_again_it_is_the_same(data: bytes) -> None:
    [seen] = read(data)
    [again] = read(render_request(seen[0], seen[2]))
    assert told(*again) == told(*seen)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12))
def test_any_path_stays_what_it_was(path: str) -> None:
    quoted = b"".join(b"%%%02X" % byte for byte in path.encode())
    [seen] = read(b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % quoted, Limits())
    [again] = read(render_request(seen[0]), Limits())
    assert again[0].path == seen[0].path


def test_versions_closing_and_offers_stay() -> None:
    offer = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    for data in (
        b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        b"POST /a?b=%20&c HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi",
        b"POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Version: 13\r\n" + offer + b"\r\n",
        b"GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    ):
        [seen] = read(data)
        [again] = read(render_request(seen[0], seen[2]))
        assert told(*again) == told(*seen), data
