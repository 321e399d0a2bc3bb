"""A registry with two images, as much of one as engines ask for: so that pulling needs no network."""

import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.containers.images import ARCHITECTURE, layer

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
MANIFESTS = "application/vnd.docker.distribution.manifest.list.v2+json"
GOOD, FOREIGN = "tools/good", "tools/foreign"


class _Registry:
    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.pulled: list[str] = []
        blob = gzip.compress(layer({"large": bytes(range(256)) * 20_000}), mtime=0)
        config = {
            "architecture": ARCHITECTURE,
            "os": "linux",
            "config": {"Cmd": ["/bin/cat"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(gzip.decompress(blob))]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self._blob(
                json.dumps(config).encode(), "application/vnd.docker.container.image.v1+json"
            ),
            "layers": [self._blob(blob, "application/vnd.docker.image.rootfs.diff.tar.gzip")],
        }
        good = json.dumps(manifest).encode()
        self._manifest(GOOD, MANIFEST, good)
        entry = {"mediaType": MANIFEST, "size": len(good), "digest": _digest(good)}
        other = {"manifests": [{**entry, "platform": {"architecture": "s390x", "os": "linux"}}]}
        self._manifest(
            FOREIGN, MANIFESTS, json.dumps({"schemaVersion": 2, "mediaType": MANIFESTS, **other}).encode()
        )

    def _blob(self, data: bytes, kind: str) -> dict[str, Any]:
        self.blobs[_digest(data)] = data
        return {"mediaType": kind, "size": len(data), "digest": _digest(data)}

    def _manifest(self, name: str, kind: str, data: bytes) -> None:
        for reference in ("1", _digest(data)):
            self.manifests[f"{name}/manifests/{reference}"] = (kind, data)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@contextmanager
def registry() -> Iterator[tuple[str, list[str]]]:
    """Where it is, and what was asked of it so far."""
    there = _Registry()

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/v2/").partition("?")[0]
            there.pulled.append(path)
            if not path:
                self._say(200, "application/json", b"{}")
            elif path in there.manifests:
                self._say(200, *there.manifests[path])
            elif (blob := there.blobs.get(path.rpartition("/")[2])) is not None:
                self._say(200, "application/octet-stream", blob)
            else:
                self._say(
                    404, "application/json", b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "x"}]}'
                )

        do_HEAD = do_GET

        def _say(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", _digest(body))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", there.pulled
        finally:
            server.shutdown()
            thread.join()
