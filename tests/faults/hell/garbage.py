"""Requests that are none."""

__all__ = ["GARBAGE", "NO_HTTP"]

GARBAGE = (
    b"",
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b"\xff\xfe",
    b"\0" * 100,
    b"[" * 50_000,
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    b'{"jsonrpc":"2.0","id":[1],"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":7}',
    b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xc3\x28"}}',
    b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},5]',
)
"""Bodies."""

NO_HTTP = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET\r\n\r\n",
    b"GET {path} HTTP/1.1\r\n\r\n",
    b"PATCH {path} HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
    b"\r\n\r\n\r\n",
)
"""What a connection may bring instead of a request; {path} is where the server is."""
