"""Asking a program of ours that tells how it is at a unix socket: a relay, or a connection to one."""

import json
import socket
from pathlib import Path
from typing import Any

from mooring.errors import Unavailable

__all__ = ["ask_socket"]

ANSWER_S = 2.0


def ask_socket(path: Path, method: str, target: str) -> Any:
    """What whoever listens there answers. Raises OSError, Unavailable."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_S)
        connection.connect(str(path))
        connection.sendall(
            f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    try:
        told = json.loads(body)
        if b" 200 " in head.split(b"\r\n")[0]:
            return told
        error = told["error"]
        raise Unavailable(error["message"], code=error["code"], hint=error.get("hint", ""))
    except (ValueError, KeyError, TypeError):
        pass  # it ended in the middle of a word
    raise Unavailable("it does not answer as it should", code="bad_answer")
