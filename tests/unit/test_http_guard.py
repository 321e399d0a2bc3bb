"""Who is let in, as a table."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mooring.http.guard import Guard, guarded
from mooring.wire.http import Exchange, Head, Headers, Request, Response

ORIGIN = b"https://app.example"


class FakeExchange:
    """Records the answer."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.extra_headers: Headers = []
        self.on_disconnect: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None
        self.disconnected = False
        self.writable = True
        self.answer: Response | None = None

    def respond(self, response: Response) -> None:
        self.answer = response

    def start(self, status: int, headers: Headers) -> None: ...
    def write(self, data: bytes) -> None: ...
    def end(self) -> None: ...
    def abort(self) -> None: ...

    def upgrade(self, subprotocol: str) -> None:
        raise AssertionError("nobody upgrades here")


def ask(
    guard: Guard,
    headers: dict[str, str] | None = None,
    *,
    method: str = "POST",
    path: str = "/mcp",
    peer: str = "1.2.3.4:5",
    host: str | None = "localhost",
) -> tuple[int, dict[str, str], FakeExchange]:
    fields = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    if host is not None:
        fields.append((b"host", host.encode()))
    exchange = FakeExchange(Request(Head(method, path, headers=fields), peer=peer))

    def app(exchange: Exchange) -> None:
        exchange.respond(Response(200, exchange.request.principal.encode()))

    guarded(app, guard)(exchange)
    assert exchange.answer is not None
    answered = {
        name.decode(): value.decode() for name, value in [*exchange.answer.headers, *exchange.extra_headers]
    }
    return exchange.answer.status, answered, exchange


def error(exchange: FakeExchange) -> Any:
    assert exchange.answer is not None
    return json.loads(exchange.answer.body)["error"]


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:4670", "LOCALHOST.", "127.0.0.1", "127.8.9.1:1", "[::1]", "[::1]:4670"],
)
def test_loopback_hosts_are_always_fine(host: str) -> None:
    assert ask(Guard(), host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "10.0.0.1",
        "[fe80::1]",
        "0.0.0.0",
        "",
        None,
        "127.1",
        "[::ffff:10.0.0.1]",
    ],
)
def test_other_hosts_are_refused(host: str | None) -> None:
    status, _, exchange = ask(Guard(hosts=["good.example"]), host=host)
    assert status == 403
    assert error(exchange)["code"] == "host_not_allowed"
    assert "--allow-host" in error(exchange)["hint"]


def test_named_hosts_are_exact_and_star_is_any() -> None:
    guard = Guard(hosts=["Good.example", "other.example:8080"])
    assert ask(guard, host="good.EXAMPLE:99")[0] == 200
    assert ask(guard, host="other.example")[0] == 200
    assert ask(guard, host="sub.good.example")[0] == 403
    assert ask(Guard(hosts=["*"]), host="whatever.example")[0] == 200


def test_ip_hosts_are_fine_when_bound_to_the_network_but_names_are_not() -> None:
    guard = Guard(allow_ip_hosts=True)
    assert ask(guard, host="10.0.0.1:4670")[0] == 200
    assert ask(guard, host="[2001:db8::1]")[0] == 200
    assert ask(guard, host="evil.example")[0] == 403


def test_unix_sockets_need_no_host() -> None:
    assert ask(Guard(), host="whatever", peer="unix")[0] == 200
    assert ask(Guard(), {"Origin": "https://evil.example"}, peer="unix")[0] == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "http://localhost:3000",
        "https://127.0.0.1:1",
        "http://[::1]:8080",
        "https://app.example",
    ],
)
def test_allowed_origins_get_cors_fields(origin: str) -> None:
    status, headers, _ = ask(Guard(origins=["https://app.example/"]), {"Origin": origin})
    assert status == 200
    assert headers["access-control-allow-origin"] == origin
    assert headers["vary"] == "Origin"
    assert headers["access-control-expose-headers"] == "Mcp-Session-Id, WWW-Authenticate"
    assert "access-control-allow-credentials" not in headers


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://evil.example",
        "http://app.example",
        "https://app.example:444",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "http://evil@localhost",
        "http://localhost/path",
        "file://localhost",
        "http://localhost:99999999",
        "http://[::1",
        "localhost",
    ],
)
def test_other_origins_are_refused_without_cors(origin: str) -> None:
    status, headers, exchange = ask(Guard(origins=["https://app.example"]), {"Origin": origin})
    assert status == 403
    assert error(exchange)["code"] == "origin_not_allowed"
    assert not any(name.startswith("access-control") for name in headers)


def test_star_allows_any_origin_and_names_it() -> None:
    assert (
        ask(Guard(origins=["*"]), {"Origin": "https://x.example"})[1]["access-control-allow-origin"]
        == "https://x.example"
    )


def test_two_origins_are_refused() -> None:
    request = Request(
        Head("GET", "/", headers=[(b"host", b"localhost"), (b"origin", ORIGIN), (b"origin", ORIGIN)])
    )
    verdict = Guard(origins=["*"]).judge(request)
    assert verdict.answer is not None
    assert verdict.answer.status == 403


def test_preflight_needs_no_token_and_echoes_the_headers_asked_for() -> None:
    guard = Guard(origins=[ORIGIN.decode()], tokens={"me": "secret"})
    asked = {
        "Origin": ORIGIN.decode(),
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, mcp-session-id,x-new",
    }
    status, headers, _ = ask(guard, asked, method="OPTIONS")
    assert status == 204
    assert headers["access-control-allow-methods"] == "GET, POST, DELETE, OPTIONS"
    assert headers["access-control-allow-headers"] == "content-type, mcp-session-id,x-new"
    assert headers["access-control-max-age"] == "600"
    assert headers["access-control-allow-origin"] == ORIGIN.decode()


@pytest.mark.parametrize("asked", [None, "", "x y", 'a"b', "a,,b"])
def test_preflight_names_the_usual_headers_when_the_wish_is_no_list_of_names(asked: str | None) -> None:
    fields = {"Origin": "http://localhost", "Access-Control-Request-Method": "POST"}
    if asked is not None:
        fields["Access-Control-Request-Headers"] = asked
    allowed = ask(Guard(), fields, method="OPTIONS")[1]["access-control-allow-headers"]
    assert {"content-type", "authorization", "accept", "last-event-id", "mcp-session-id"} <= {
        name.strip() for name in allowed.split(",")
    }


def test_preflight_of_a_foreign_origin_is_refused() -> None:
    fields = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    assert ask(Guard(), fields, method="OPTIONS")[0] == 403


def test_plain_options_says_what_is_allowed() -> None:
    status, headers, _ = ask(Guard(tokens={"me": "secret"}), method="OPTIONS")
    assert (status, headers["allow"]) == (204, "GET, POST, DELETE, OPTIONS")


def test_token_names_the_principal() -> None:
    guard = Guard(tokens={"alice": "a-token", "bob": "b!token"})
    for name, token in (("alice", "Bearer a-token"), ("bob", "bearer  b!token")):
        status, _, exchange = ask(guard, {"Authorization": token})
        assert (status, exchange.request.principal) == (200, name)
    assert ask(Guard())[2].request.principal == "local"


@pytest.mark.parametrize(
    ("authorization", "is_invalid"),
    [(None, False), ("Bearer wrong", True), ("Basic eDp5", True), ("Bearer", True), ("Bearer ä", True)],
)
def test_missing_and_wrong_tokens_are_told_apart(authorization: str | None, is_invalid: bool) -> None:
    fields = {"Origin": "http://localhost"} | ({"Authorization": authorization} if authorization else {})
    status, headers, exchange = ask(Guard(tokens={"me": "secret"}), fields)
    assert status == 401
    assert headers["www-authenticate"].startswith('Bearer realm="mooring"')
    assert ('error="invalid_token"' in headers["www-authenticate"]) is is_invalid
    assert headers["access-control-allow-origin"] == "http://localhost"
    assert "secret" not in str(error(exchange))


def test_several_authorization_headers_are_refused() -> None:
    fields = [(b"host", b"localhost"), (b"authorization", b"Bearer secret"), (b"authorization", b"Bearer x")]
    verdict = Guard(tokens={"me": "secret"}).judge(Request(Head("GET", "/", headers=fields)))
    assert verdict.answer is not None
    assert verdict.answer.status == 400


def test_exempt_paths_pass_unseen() -> None:
    guard = Guard(tokens={"me": "secret"}, exempt_paths=("/livez",))
    assert ask(guard, {"Origin": "null"}, path="/livez", host="10.1.1.1:80")[0] == 200
    assert ask(guard, path="/livez/x")[0] == 401


def test_who_vouches_for_a_request_is_asked_each_time() -> None:
    """Its head is kept for as long as it comes again; what vouches for it is not good for so long."""
    guard = Guard(tokens={"alice": "a" * 24})
    vouching = ["bob"]
    guard.vouched = lambda request: vouching[0] if vouching else None
    head = Head("POST", "/mcp", headers=[(b"host", b"localhost")])
    assert guard.judge(Request(head)).principal == "bob"
    vouching[0] = "carol"
    assert guard.judge(Request(head)).principal == "carol"
    vouching.clear()
    refused = guard.judge(Request(head)).answer
    assert refused is not None
    assert refused.status == 401


def test_who_needs_nobody_is_asked_for_nobody() -> None:
    guard = Guard(tokens={"alice": "a" * 24}, exempt_paths=["/livez"])
    guard.vouched = lambda request: "bob"
    verdict = guard.judge(Request(Head("GET", "/livez", headers=[(b"host", b"localhost")])))
    assert (verdict.answer, verdict.principal) == (None, "local")


def test_whoever_vouches_and_is_not_believed_is_no_client_either() -> None:
    guard = Guard(exempt_paths=["/livez"])
    guard.vouched, guard.voucher_field = (lambda request: None), b"voucher"
    fields = [(b"host", b"localhost"), (b"voucher", b"bob")]
    refused = guard.judge(Request(Head("POST", "/mcp", headers=fields))).answer
    assert refused is not None
    assert refused.status == 401
    assert guard.judge(Request(Head("POST", "/mcp", headers=fields[:1]))).answer is None
    assert guard.judge(Request(Head("GET", "/livez", headers=fields))).answer is None
