"""The values of an HTTP exchange."""

from mooring.wire.http import Head, Request, Response


def test_a_header_is_found_by_its_lower_case_name_the_first_of_many() -> None:
    request = Request(Head(headers=[(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4")]))
    assert (request.header(b"a"), request.header(b"b"), request.header(b"c")) == (b"1", b"2", None)
    assert (request.header_all(b"a"), request.header_all(b"c")) == ([b"1", b"3"], [])
    assert request.headers == [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4")]


def test_a_request_has_defaults_of_its_own() -> None:
    one, other = Request(Head("GET", "/a")), Request(Head("POST", "/b", "x=1"), b"abc", "p", tls=True)
    one.head.add(b"a", b"1")
    assert (one.headers, other.headers) == ([(b"a", b"1")], [])
    assert (one.query, one.body, one.peer, one.tls, one.principal) == ("", b"", "", False, "local")
    assert (other.query, other.body, other.peer, other.tls) == ("x=1", b"abc", "p", True)


def test_a_response_is_a_status_a_body_and_headers() -> None:
    assert [(r.status, r.body, r.headers) for r in (Response(202), Response(200, b"x", [(b"a", b"1")]))] == [
        (202, b"", []),
        (200, b"x", [(b"a", b"1")]),
    ]


def test_neither_shows_what_it_carries() -> None:
    request = Request(Head("POST", "/mcp", headers=[(b"authorization", b"Bearer secret")]), b"secret")
    assert repr(request) == "<Request POST /mcp 6 bytes>"
    assert repr(Response(200, b"secret")) == "<Response 200 6 bytes>"
