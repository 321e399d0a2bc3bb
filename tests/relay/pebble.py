"""A real ACME authority: pebble, with a DNS of its own in which every name leads to this machine."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import trustme

from mooring.relay.certificates.policy import Authority
from tests.support import PATIENCE_S, free_port

__all__ = ["BLOCKED", "Pebble", "pebble_running", "require_pebble"]

BLOCKED = "blocked.example"
"""A domain for which it signs nothing."""
PROGRAMS = ("pebble", "pebble-challtestsrv")


def require_pebble() -> None:
    """Skip where it is missing; in CI, fail."""
    if all(map(shutil.which, PROGRAMS)):
        return
    reason = "pebble is missing: apt-get install pebble"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Pebble:
    """One authority. It can be stopped and started again; then it has forgotten everything."""

    def __init__(
        self, folder: Path, *, lifetime_s: int = 90 * 86400, nonces_refused: int = 0, invitation: bool = False
    ) -> None:
        self._folder = folder
        self._log = folder / "pebble.log"
        self._nonces_refused = nonces_refused
        self._running: list[subprocess.Popen[bytes]] = []
        self._port, self._management, self._dns = free_port(), free_port(), free_port()
        self.http_port, self.tls_port = free_port(), free_port()
        """Where it looks for whoever wants a certificate."""
        self.url = f"https://localhost:{self._port}/dir"
        self.ca_file = folder / "ca.pem"
        ca = trustme.CA()
        ca.cert_pem.write_to_path(self.ca_file)
        own = ca.issue_cert("localhost", "127.0.0.1")
        own.cert_chain_pems[0].write_to_path(folder / "own.pem")
        own.private_key_pem.write_to_path(folder / "own.key")
        self._trust = ssl.create_default_context(cafile=self.ca_file)
        configuration = {
            "listenAddress": f"127.0.0.1:{self._port}",
            "managementListenAddress": f"127.0.0.1:{self._management}",
            "certificate": str(folder / "own.pem"),
            "privateKey": str(folder / "own.key"),
            "httpPort": self.http_port,
            "tlsPort": self.tls_port,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": invitation,
            "domainBlocklist": [BLOCKED],
            "certificateValidityPeriod": lifetime_s,
        }
        (folder / "pebble.json").write_bytes(msgspec.json.encode({"pebble": configuration}))

    @property
    def authority(self) -> Authority:
        return Authority(url=self.url, ca_file=self.ca_file)

    @property
    def requests(self) -> int:
        """How many it has had, of whatever kind."""
        return self._log.read_text().count("-> calling handler()")

    @property
    def log(self) -> str:
        return self._log.read_text()

    def start(self) -> None:
        dns = f"127.0.0.1:{self._dns}"
        nowhere = [word for option in ("-http01", "-https01", "-tlsalpn01") for word in (option, "")]
        management = f"127.0.0.1:{free_port()}"
        self._run(
            "pebble-challtestsrv", "-defaultIPv6", "", "-dns01", dns, *nowhere, "-management", management
        )
        self._run("pebble", "-config", str(self._folder / "pebble.json"), "-dnsserver", dns)
        for port in (self._port, self._management, self._dns):
            self._wait_for(port)

    def stop(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)
        self._running.clear()

    def suspend(self) -> None:
        """It listens, and does not answer any more."""
        for process in self._running:
            process.send_signal(signal.SIGSTOP)

    def trust(self) -> ssl.SSLContext:
        """A client's context that trusts what it signs."""
        root = f"https://localhost:{self._management}/roots/0"
        with urllib.request.urlopen(root, context=self._trust, timeout=PATIENCE_S) as answer:
            context = ssl.create_default_context(cadata=answer.read().decode())
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _run(self, *argv: str) -> None:
        environ = {
            **os.environ,
            "PEBBLE_VA_NOSLEEP": "1",
            "PEBBLE_AUTHZREUSE": "0",
            "PEBBLE_WFE_NONCEREJECT": str(self._nonces_refused),
        }
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environ
            )
        self._running.append(process)

    def _wait_for(self, port: int) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            assert all(process.poll() is None for process in self._running), self.log
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                assert time.monotonic() < give_up_at, self.log
                time.sleep(0.02)
            else:
                return


@contextmanager
def pebble_running(
    folder: Path, *, lifetime_s: int = 90 * 86400, nonces_refused: int = 0, invitation: bool = False
) -> Iterator[Pebble]:
    """An authority whose certificates are good for so long, which refuses that many nonces in a hundred."""
    require_pebble()
    pebble = Pebble(folder, lifetime_s=lifetime_s, nonces_refused=nonces_refused, invitation=invitation)
    try:
        pebble.start()
        yield pebble
    finally:
        pebble.stop()
