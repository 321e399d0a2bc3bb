"""What a URL says about a server, and what people are told who write it wrong."""

from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.http.origin import parse_url


@pytest.mark.parametrize(
    ("url", "authority", "target"),
    [
        ("http://127.0.0.1:4670/mcp", "127.0.0.1:4670", "/mcp"),
        ("http://localhost", "localhost", "/"),
        ("http://localhost:80/a%20b?c=d", "localhost", "/a%20b?c=d"),
        ("http://[::1]:4670/mcp", "[::1]:4670", "/mcp"),
        ("https://example.com/mcp#part", "example.com", "/mcp"),
        ("https://example.com:80/", "example.com:80", "/"),
        ("unix:/run/mooring.sock", "localhost", "/mcp"),
        ("unix:///run/mooring.sock", "localhost", "/mcp"),
    ],
)
def test_good(url: str, authority: str, target: str) -> None:
    origin, asked = parse_url(url)
    assert (origin.authority, asked) == (authority, target)
    assert (origin.tls is not None) == url.startswith("https:")
    assert origin.unix == (Path("/run/mooring.sock") if url.startswith("unix:") else None)


@pytest.mark.parametrize(
    ("url", "code", "hint"),
    [
        ("127.0.0.1:4670/mcp", "bad_url", "write: http://127.0.0.1:4670/mcp"),
        ("localhost/mcp", "bad_url", "write: http://localhost/mcp"),
        ("ftp://x/mcp", "bad_url", "give a URL such as"),
        ("http://", "bad_url", "give a URL such as"),
        ("http://:80/", "bad_url", "give a URL such as"),
        ("http://x:99999/", "bad_url", "give a URL such as"),
        ("http://[x/", "bad_url", "give a URL such as"),
        ("http://é/", "bad_url", "give a URL such as"),
        ("http://x/é", "bad_url", "give a URL such as"),
        ("http://x/a b", "bad_url", "give a URL such as"),
        ("unix:", "bad_url", "give a URL such as"),
        ("http://me:secret@x/", "secret_in_url", "--token-file"),
    ],
)
def test_bad(url: str, code: str, hint: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_url(url)
    assert refused.value.code == code
    assert hint in refused.value.hint
    assert "secret" not in refused.value.message
