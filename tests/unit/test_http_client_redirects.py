"""Which redirects are followed: within one server, and never so that a call becomes a look."""

from pathlib import Path

import pytest

from mooring.http.client_redirects import redirected
from mooring.http.origin import Origin, parse_url

HERE, _ = parse_url("http://example.com:8080/mcp")
SECURE, _ = parse_url("https://example.com/mcp")


@pytest.mark.parametrize(
    ("origin", "location", "target"),
    [
        (HERE, "/other", "/other"),
        (HERE, "other/", "/other/"),
        (HERE, "?a=b", "/mcp?a=b"),
        (HERE, "http://example.com:8080/x#y", "/x"),
        (HERE, "HTTP://EXAMPLE.com:8080", "/"),
        (HERE, "//example.com:8080/x", "/x"),
        (HERE, "http://example.com/x", None),
        (HERE, "https://example.com:8080/x", None),
        (HERE, "//other.com:8080/x", None),
        (HERE, "http://example.com:8080@other.com/x", None),
        (HERE, "http://me@example.com:8080/x", None),
        (HERE, "http://example.com:99999/x", None),
        (HERE, "http://[/x", None),
        (HERE, "/a b", None),
        (HERE, "/\xe9", None),
        (HERE, "ftp://example.com:8080/x", None),
        (SECURE, "https://example.com:443/x", "/x"),
        (SECURE, "http://example.com/x", None),
        (Origin(unix=Path("/run/x")), "/x", "/x"),
        (Origin(unix=Path("/run/x")), "http://localhost/x", "/x"),
        (Origin(host="::1", port=1), "http://[::1]:1/x", "/x"),
    ],
)
def test_only_within_one_server(origin: Origin, location: str, target: str | None) -> None:
    assert redirected(origin, "/mcp", "POST", 307, location.encode("latin-1")) == target


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("status", [200, 201, 300, 301, 302, 303, 304, 307, 308, 404])
def test_method_and_status(method: str, status: int) -> None:
    follows = status in (307, 308) or (method == "GET" and status in (301, 302, 303))
    assert redirected(HERE, "/mcp", method, status, b"/x") == ("/x" if follows else None)
    assert redirected(HERE, "/mcp", method, status, None) is None
