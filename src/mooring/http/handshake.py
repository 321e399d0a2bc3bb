"""May a request make its connection a WebSocket? A pure decision (RFC 6455 §4.2).

Who may ask at all was the guard's decision: an upgrade is a request like any other until here.
Extensions are ignored, which declines them: compression would cost each connection more memory than
all else it needs, and what is compressed beside a secret tells of it.
"""

import base64
import binascii
import hashlib

from mooring.http.head import render_switch
from mooring.http.problems import problem
from mooring.http.rules import tokens
from mooring.wire.http import Headers, Request, Response

__all__ = ["accepted", "agree"]

VERSION = b"13"
KEY_BYTES = 16
# RFC 6455 §1.3: what nobody answers by chance who does not know the protocol.
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def agree(request: Request, subprotocol: str) -> bytes | Response:
    """The head that switches protocols, or the answer that says why not.

    A peer that names no subprotocol gets none, and is served: many tools cannot name one.
    """
    if not request.offers_websocket:
        return problem(
            426,
            "upgrade_required",
            f"{request.path} is for WebSockets",
            hint="connect with a WebSocket client: GET, HTTP/1.1, Upgrade: websocket, no body",
        )
    if request.header_all(b"sec-websocket-version") != [VERSION]:
        return problem(
            426,
            "unknown_websocket_version",
            "the only version of the WebSocket protocol spoken here is 13",
            headers=[(b"sec-websocket-version", VERSION)],
        )
    keys = request.header_all(b"sec-websocket-key")
    if len(keys) != 1 or not _is_key(keys[0]):
        return problem(400, "bad_websocket_key", "one Sec-WebSocket-Key is needed, of 16 bytes in base64")
    offered = tokens(request.header_all(b"sec-websocket-protocol"))
    if offered and subprotocol.encode() not in offered:
        return problem(
            400,
            "unknown_subprotocol",
            f"the only subprotocol spoken here is {subprotocol}",
            hint=f"send Sec-WebSocket-Protocol: {subprotocol}, or none",
        )
    headers: Headers = [(b"sec-websocket-accept", accepted(keys[0]))]
    if offered:
        headers.append((b"sec-websocket-protocol", subprotocol.encode()))
    return render_switch(headers)


def _is_key(value: bytes) -> bool:
    try:
        return len(base64.b64decode(value, validate=True)) == KEY_BYTES
    except binascii.Error:
        return False


def accepted(key: bytes) -> bytes:
    """What proves that the other end has understood the key."""
    return base64.b64encode(hashlib.sha1(key + GUID, usedforsecurity=False).digest())
