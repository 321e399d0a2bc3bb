"""A request written out again, for whoever serves it in our place. Pure.

What the reader makes of it is the same request; but not byte for byte what the peer had sent: names are lower
case, a target that named a host names it no more, a chunked body has its length told.
"""

from urllib.parse import quote

from mooring.wire.http import Request

__all__ = ["render_request"]

FRAMING = frozenset({b"content-length", b"transfer-encoding", b"expect"})
"""These are told anew: the body is there, whole."""
UNQUOTED = "/!$&'()*+,;=:@~"


def render_request(request: Request, is_http_1_0: bool = False) -> bytes:
    """The bytes of it."""
    head = request.head
    target = quote(head.path, safe=UNQUOTED) + (f"?{head.query}" if head.query else "")
    version = "1.0" if is_http_1_0 else "1.1"
    lines = [f"{head.method} {target} HTTP/{version}\r\n".encode("latin-1")]
    lines += [b"%b: %b\r\n" % field for field in request.headers if field[0] not in FRAMING]
    if request.body or not FRAMING.isdisjoint(head.fields):
        lines.append(b"content-length: %d\r\n" % len(request.body))
    return b"".join((*lines, b"\r\n", request.body))
