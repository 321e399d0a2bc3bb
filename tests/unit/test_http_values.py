"""The pure parts: routes, rules of a head, rendering, waits, port owners."""

import json
import os
from email.utils import formatdate
from pathlib import Path

import pytest

from mooring.errors import LocalProtocolError
from mooring.http.head import render_head
from mooring.http.limits import Limits
from mooring.http.port_owner import port_owner
from mooring.http.problems import Refusal
from mooring.http.reader import BODY, HEAD
from mooring.http.router import Router
from mooring.http.rules import check_host, split_target
from mooring.http.waits import Overdue, Waits
from mooring.wire.http import Exchange, Head, Headers, Request, Response
from tests.unit.test_http_guard import FakeExchange

DAYS_OF_A_YEAR = range(1_800_000_000, 1_831_536_000, 40 * 86_400 + 12_345)


def ok(exchange: Exchange) -> None:
    exchange.respond(Response(200, exchange.request.path.encode()))


def route(method: str, path: str) -> Response:
    router = Router().add("POST", "/mcp", ok).add("GET", "/mcp", ok).add("GET", "/livez", ok)
    exchange = FakeExchange(Request(Head(method, path)))
    router(exchange)
    assert exchange.answer is not None
    return exchange.answer


def test_router_knows_paths_and_methods() -> None:
    assert route("POST", "/mcp").status == 200
    assert route("GET", "/livez").body == b"/livez"
    assert route("GET", "/mcp/").status == 404
    refused = route("DELETE", "/mcp")
    assert refused.status == 405
    assert (b"allow", b"GET, POST") in refused.headers
    assert json.loads(refused.body)["error"]["code"] == "method_not_allowed"


def test_a_router_says_where_to_go_instead() -> None:
    exchange = FakeExchange(Request(Head("GET", "/")))
    Router(hint="try /livez").add("GET", "/livez", ok)(exchange)
    assert exchange.answer is not None and exchange.answer.status == 404
    error = json.loads(exchange.answer.body)["error"]
    assert (error["message"], error["hint"]) == ("nothing is served at /", "try /livez")
    assert "hint" not in json.loads(route("GET", "/").body)["error"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/", ("/", "")),
        (b"/a/b?x=%20&y", ("/a/b", "x=%20&y")),
        (b"/caf%C3%A9", ("/café", "")),
        (b"/a%3Fb?c?d", ("/a?b", "c?d")),
        (b"http://host/x?y", ("/x", "y")),
        (b"HTTP://HOST:80", ("/", "")),
        (b"http://host?y=/", ("/", "y=/")),
        (b"//double", ("//double", "")),
    ],
)
def test_targets(target: bytes, expected: tuple[str, str]) -> None:
    assert split_target("GET", target, b"host") == expected


def test_absolute_targets_compare_authorities_with_their_default_port() -> None:
    assert split_target("GET", b"https://[::1]/x", b"[::1]:443") == ("/x", "")
    assert split_target("GET", b"http://h:/x", b"h:80") == ("/x", "")
    assert split_target("GET", b"http://h/x", None) == ("/x", "")
    assert split_target("OPTIONS", b"*", b"h") == ("/", "")


@pytest.mark.parametrize(
    "target",
    [
        b"/a#b", b"*", b"ftp://host/", b"host:80", b"http:///x", b"http://u@host/x", b"http://other/x",
        b"http://host:81/x", b"https://host:80/x", b"/%zz", b"/%", b"/%ff", b"/a%00b", b"/a%0d%0ab", b"/%7f",
    ],
)  # fmt: skip
def test_refused_targets(target: bytes) -> None:
    with pytest.raises(Refusal) as refusal:
        split_target("GET", target, b"host")
    assert refusal.value.status == 400


@pytest.mark.parametrize("host", [b"a", b"a:1", b"[::1]:80", b"", b"a_b.c", b"[fe80::1%25eth0]"])
def test_hosts(host: bytes) -> None:
    check_host(host, "1.1")


@pytest.mark.parametrize(
    "host", [None, b"a b", b"a,b", b"u@a", b"a/b", b"a:b", b"[::1", b"a:999999", b"a\xff"]
)
def test_refused_hosts(host: bytes | None) -> None:
    with pytest.raises(Refusal):
        check_host(host, "1.1")


def test_http_1_0_needs_no_host() -> None:
    check_host(None, "1.0")


@pytest.mark.parametrize(
    "headers",
    [
        [(b"x", b"a\r\nset-cookie: b")],
        [(b"x", b"a\nb")],
        [(b"x", b"a\rb")],
        [(b"x", b"a\0b")],
        [(b"x\r\ny", b"a")],
        [(b"x y", b"a")],
        [(b"X", b"a")],
        [(b"", b"a")],
        [(b"content-length", b"1")],
        [(b"transfer-encoding", b"chunked")],
        [(b"connection", b"close")],
    ],
)
def test_no_header_can_split_or_reframe_an_answer(headers: Headers) -> None:
    with pytest.raises(LocalProtocolError):
        render_head(200, headers, [])
    with pytest.raises(LocalProtocolError):
        render_head(200, [], headers)


def test_heads() -> None:
    head = b"".join(render_head(200, [(b"a", b"1")], [(b"b", b"")])).split(b"\r\n")
    assert head[0] == b"HTTP/1.1 200 OK"
    assert head[1].startswith(b"date: ")
    assert head[1].endswith(b" GMT")
    assert head[2:] == [b"a: 1", b"b: ", b""]
    assert render_head(299, [], [])[0].startswith(b"HTTP/1.1 299 \r\n")
    for status in (100, 101, 199, 600):
        with pytest.raises(LocalProtocolError):
            render_head(status, [], [])


@pytest.mark.parametrize("second", [0, 86_399, 951_782_400, 1_794_787_200, 4_102_444_800, *DAYS_OF_A_YEAR])
def test_the_date_is_that_of_the_mail_standard(second: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: float(second))
    assert render_head(200, [], [])[0].endswith(b"date: %b\r\n" % formatdate(second, usegmt=True).encode())


LIMITS = Limits(
    header_timeout_s=10,
    read_idle_timeout_s=4,
    keep_alive_timeout_s=5,
    write_stall_timeout_s=3,
    linger_timeout_s=2,
)


def test_a_head_has_a_total_bound_and_a_body_only_one_between_bytes() -> None:
    waits = Waits(LIMITS)
    for now in range(10):
        assert waits.look_at_request(now, state=HEAD, heard=True) is Overdue.NOTHING
    assert waits.look_at_request(10, state=HEAD, heard=True) is Overdue.REQUEST
    assert waits.look_at_request(100, state=BODY, heard=True) is Overdue.NOTHING
    assert waits.look_at_request(103, state=BODY, heard=False) is Overdue.NOTHING
    assert waits.look_at_request(104, state=BODY, heard=False) is Overdue.REQUEST
    waits.look_at_turns(1)
    assert waits.look_at_request(105, state=HEAD, heard=False) is Overdue.NOTHING


def test_idle_ends_by_timeout_or_at_its_moment() -> None:
    waits = Waits(LIMITS)
    assert [waits.look_at_idle(now) for now in (1, 5.9)] == [Overdue.NOTHING] * 2
    assert waits.look_at_idle(6) is Overdue.USE
    waits.look_at_turns(1)
    assert waits.look_at_idle(7) is Overdue.NOTHING
    waits.close_at = 8
    assert waits.look_at_idle(7.9) is Overdue.NOTHING
    assert waits.look_at_idle(8) is Overdue.USE


def test_only_progress_ends_a_stall() -> None:
    waits = Waits(LIMITS)
    assert waits.look_at_output(0, written=10, buffered=5) is Overdue.NOTHING
    # More is written, nothing is taken.
    assert waits.look_at_output(2.9, written=20, buffered=15) is Overdue.NOTHING
    assert waits.look_at_output(3, written=20, buffered=15) is Overdue.WRITE
    # As much is taken as is written.
    assert waits.look_at_output(4, written=30, buffered=15) is Overdue.NOTHING
    assert waits.look_at_output(6.9, written=30, buffered=15) is Overdue.NOTHING
    assert waits.look_at_output(6.95, written=30, buffered=0) is Overdue.NOTHING
    assert waits.look_at_output(8, written=40, buffered=10) is Overdue.NOTHING


def test_linger_is_bounded() -> None:
    waits = Waits(LIMITS)
    assert waits.look_at_linger(1) is Overdue.NOTHING
    assert waits.look_at_linger(3) is Overdue.LINGER


def test_who_still_reads_is_lingered_for() -> None:
    waits = Waits(LIMITS)
    for now in range(1, 10):
        assert waits.look_at_linger(now, taken=now) is Overdue.NOTHING
    assert waits.look_at_linger(11, taken=9) is Overdue.LINGER


def test_sweeps_are_as_fine_as_the_shortest_wait() -> None:
    assert Limits().sweep_interval_s == 0.25
    assert Limits(linger_timeout_s=0.001).sweep_interval_s == 0.01


def test_port_owner_reads_proc(tmp_path: Path) -> None:
    net = tmp_path / "net"
    net.mkdir()
    row = "  0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000 0 {inode} 1\n"
    (net / "tcp").write_text(
        "header\n"
        + row.format(local="0100007F:1F90", state="01", inode="11")
        + row.format(local="0100007F:1F90", state="0A", inode="12")
    )
    assert port_owner(8081, tmp_path) == ""
    for pid, inode in (("41", "11"), ("42", "12")):
        descriptors = tmp_path / pid / "fd"
        descriptors.mkdir(parents=True)
        (descriptors / "3").symlink_to(f"socket:[{inode}]")
        (descriptors / "4").write_text("not a link")
    (tmp_path / "self").mkdir()
    (tmp_path / "40").mkdir()
    assert port_owner(8080, tmp_path) == "pid 42 (unknown)"
    (tmp_path / "42" / "comm").write_text("node\n")
    assert port_owner(8080, tmp_path) == "pid 42 (node)"
    (tmp_path / "42").rename(tmp_path / str(os.getpid()))
    assert port_owner(8080, tmp_path) == "this process itself"
    (tmp_path / str(os.getpid()) / "fd" / "3").unlink()
    assert port_owner(8080, tmp_path) == ""
