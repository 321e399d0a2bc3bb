"""What the port of a daemon has beside its servers: the API, behind a token, and what those ask who watch."""

import contextlib
import os
import secrets
from pathlib import Path

from mooring.api.level import PREFIX
from mooring.api.service import Api
from mooring.host.places import using
from mooring.host.stop import Stop
from mooring.http.guard import Guard, guarded
from mooring.http.router import Router
from mooring.wire.http import Headers, Response

__all__ = ["add_pages"]

JSON: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]


def add_pages(router: Router, api: Api, token: Path, stop: Stop) -> str:
    """The API behind its token, which is returned, and what is asked by those who watch."""
    secret = _token(token)
    router.mount(PREFIX, guarded(api, Guard(tokens={"api": secret})))
    ok = Response(200, b'{"status":"ok"}', JSON)
    draining = Response(503, b'{"state":"draining"}', JSON)
    for method in ("GET", "HEAD"):
        router.add(method, "/livez", lambda exchange: exchange.respond(ok))
        router.add(method, "/readyz", lambda exchange: exchange.respond(draining if stop.requested else ok))
    return secret


def _token(path: Path) -> str:
    """The secret of the API on the TCP port; made once, and never seen half written."""
    with using(path):
        with contextlib.suppress(FileNotFoundError):
            if token := path.read_text(encoding="ascii", errors="replace").strip():
                return token
        token, begun = secrets.token_urlsafe(32), path.with_name(f"{path.name}.new")
        begun.unlink(missing_ok=True)
        descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(token + "\n")
        begun.replace(path)
    return token
