"""The TLS context of the relay's listener: which certificate is shown in which handshake.

Invariants:
- It is one and the same object for as long as the relay runs; what it shows is decided in each handshake
  (`sni_callback`). So a certificate is exchanged between two handshakes, in one step, and a connection that
  is open knows nothing of it.
- Without a certificate every handshake fails, before anything is said.
- Whoever offers `acme-tls/1` while an authority looks at us is shown what it wants to see.

Python does not tell that callback what a client offers by ALPN, so we look ourselves, and only while an
authority does: the first message is taken out of the buffer that TLS reads from, and put back.
"""

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, cast

from mooring.relay.certificates.client_hello import ClientHello

__all__ = ["ACME_TLS", "Door"]

ACME_TLS, HTTP = "acme-tls/1", "http/1.1"
FD_FOLDER = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


class Door:
    """See the module."""

    def __init__(self) -> None:
        self.context: ssl.SSLContext = _first_context(self)
        self._shown: ssl.SSLContext | None = None
        self._answers: dict[str, ssl.SSLContext] = {}

    @property
    def is_looked_at(self) -> bool:
        """By an authority, in this moment."""
        return bool(self._answers)

    def show(self, pem: bytes) -> None:
        """From the next handshake on, the chain in here, with its key. Raises OSError."""
        self._shown = _context(pem, HTTP)

    def answer(self, domain: str, pem: bytes) -> None:
        """Show this to an authority that looks at that domain. Raises OSError."""
        self._answers[domain] = _context(pem, ACME_TLS)

    def answer_no_more(self, domain: str) -> None:
        """Idempotent."""
        self._answers.pop(domain, None)

    def choose(self, handshake: "_Handshake", name: str | None) -> int | None:
        """Called by TLS in each handshake. None: go on; a number: end it, with this alert."""
        chosen = self._shown
        if handshake.hello is not None and ACME_TLS.encode() in handshake.hello.protocols:
            chosen = self._answers.get((name or "").lower())
            if chosen is None:
                return ssl.AlertDescription.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        if chosen is None:
            return ssl.AlertDescription.ALERT_DESCRIPTION_INTERNAL_ERROR
        handshake.context = chosen
        return None


class _Handshake(ssl.SSLObject):
    """One connection, whose first message we read too, if an authority may be behind it."""

    hello: ClientHello | None = None
    door: Door
    incoming: ssl.MemoryBIO

    def do_handshake(self) -> None:
        """Called again and again, whenever something has come."""
        if self.door.is_looked_at:
            self.hello = self.hello or ClientHello()
            received = self.incoming.read()
            self.incoming.write(received)
            self.hello.feed(received)
        super().do_handshake()


class _FirstContext(ssl.SSLContext):
    """In which every handshake begins. It has no certificate of its own."""

    sslobject_class = _Handshake
    door: Door

    def wrap_bio(self, incoming: ssl.MemoryBIO, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Both event loops do this for each connection."""
        handshake = cast(_Handshake, super().wrap_bio(incoming, *args, **kwargs))
        handshake.door, handshake.incoming = self.door, incoming
        return handshake


def _first_context(door: Door) -> ssl.SSLContext:
    context = _FirstContext(ssl.PROTOCOL_TLS_SERVER)
    _configure(context, HTTP)
    context.door = door
    context.sni_callback = cast(Any, lambda handshake, name, _: door.choose(handshake, name))
    return context


def _context(pem: bytes, protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _configure(context, protocol)
    with ExitStack() as stack:
        chain, key = stack.enter_context(_as_file(pem)), stack.enter_context(_as_file(pem))
        context.load_cert_chain(chain, key)
    return context


def _configure(context: ssl.SSLContext, protocol: str) -> None:
    """Like any other TLS of ours (`mooring.http.tls`)."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """The path of a file that has no name: OpenSSL reads files only, and a key need not be in another one."""
    with _nameless() as file:
        file.write(data)
        file.seek(0)
        yield f"{FD_FOLDER}/{file.fileno()}"


def _nameless() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("certificate", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()
