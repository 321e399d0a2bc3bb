"""Asks the daemon, over its unix socket. Small and synchronous: every command of the CLI begins here."""

import json
import socket
from pathlib import Path
from typing import Any

from mooring.api.level import API_LEVEL, LASTING_PREFIX, NEWER_DAEMON, PREFIX
from mooring.errors import MooringError, Unavailable, UserError

__all__ = ["Answer", "ApiClient", "NotRunning"]

MAX_ANSWER_BYTES = 64 * 1024 * 1024
LASTING = frozenset({"/daemon", "/daemon/stop", "/daemon/handover"})
_BY_STATUS: dict[int, type[MooringError]] = {400: UserError, 404: UserError, 409: UserError}


class NotRunning(MooringError):
    """Nobody answers at the socket."""


class Answer(dict[str, Any]):
    """An object of the daemon's. One that an older daemon does not tell is missed in words."""

    def __missing__(self, name: str) -> Any:
        raise UserError(
            f"the daemon is older than this command: it does not tell {name!r}",
            code="api_mismatch",
            hint=NEWER_DAEMON,
        )


class ApiClient:
    """One request at a time, each on a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ask(self, method: str, path: str, body: Any = None, *, timeout_s: float | None = 30.0) -> Any:
        """The answer. Raises NotRunning, or the error that the daemon tells of."""
        status, headers, data = self._exchange(method, path, body, timeout_s)
        level = headers.get("mooring-api", "none")
        if level != str(API_LEVEL) and path not in LASTING:
            raise UserError(
                f"the daemon that answers speaks level {level} of the API, this command level {API_LEVEL}",
                code="api_mismatch",
                hint=NEWER_DAEMON,
            )
        try:
            answer = json.loads(data, object_hook=Answer)
        except ValueError:
            raise Unavailable("the daemon's answer cannot be read", code="bad_answer") from None
        if status == 200:
            return answer
        told = answer.get("error", {})
        kind = _BY_STATUS.get(status, Unavailable)
        raise kind(
            told.get("message", f"status {status}"), code=told.get("code", ""), hint=told.get("hint", "")
        )

    def _exchange(
        self, method: str, path: str, body: Any, timeout_s: float | None
    ) -> tuple[int, dict[str, str], bytes]:
        content = b"" if body is None else json.dumps(body).encode()
        prefix = LASTING_PREFIX if path in LASTING else PREFIX
        head = (
            f"{method} {prefix}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            try:
                connection.connect(str(self._path))
            except OSError as error:
                raise NotRunning(f"no daemon answers at {self._path}", code="not_running") from error
            try:
                connection.sendall(head.encode() + content)
                data = _read_all(connection)
            except TimeoutError:
                raise Unavailable("the daemon does not answer in time", code="timeout") from None
            except OSError as error:
                raise Unavailable(f"the daemon hung up: {error}", code="connection_lost") from None
        return _parse(data)


def _read_all(connection: socket.socket) -> bytes:
    pieces, size = [], 0
    while piece := connection.recv(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise Unavailable("the daemon's answer is too long", code="bad_answer")
    return b"".join(pieces)


def _parse(data: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[1].isdecimal():
        raise Unavailable("the daemon hung up without an answer", code="connection_lost")
    fields = (line.partition(":") for line in lines)
    return int(words[1]), {name.lower(): value.strip() for name, _, value in fields}, body
