"""What we show an authority so that it knows that a domain is ours.

HTTP-01 (RFC 8555, 8.3): a text at an address on port 80. TLS-ALPN-01 (RFC 8737): a certificate of our own
making on port 443, for whoever speaks `acme-tls/1`. Each for as long as the authority looks, and no longer.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mooring.relay.certificates.door import Door
from mooring.relay.certificates.messages import HTTP_01
from mooring.wire.http import Exchange, Response

__all__ = ["Answers"]

PREFIX = "/.well-known/acme-challenge/"
NOT_FOUND = Response(404, b"not found\n", [(b"content-type", b"text/plain")])
SECRETIVE = (b"cache-control", b"no-store")

MakeCertificate = Callable[[str, str], bytes]
"""Of a domain and a key authorization: the certificate of RFC 8737 with its key, in PEM."""


class Answers:
    """Both kinds."""

    def __init__(self, door: Door, make_certificate: MakeCertificate) -> None:
        self._door = door
        self._make_certificate = make_certificate
        self._texts: dict[str, bytes] = {}

    @contextmanager
    def shown(self, kind: str, domain: str, token: str, key_authorization: str) -> Iterator[None]:
        """Show this while it is looked at."""
        if kind == HTTP_01:
            self._texts[token] = key_authorization.encode()
        else:
            self._door.answer(domain, self._make_certificate(domain, key_authorization))
        try:
            yield
        finally:
            self._texts.pop(token, None)
            self._door.answer_no_more(domain)

    def serve(self, exchange: Exchange) -> None:
        """On port 80: the texts, and nothing else. No way leads from here to the relay itself."""
        request = exchange.request
        token = request.path.removeprefix(PREFIX) if request.path.startswith(PREFIX) else ""
        text = self._texts.get(token) if request.method in ("GET", "HEAD") else None
        if text is None:
            exchange.respond(NOT_FOUND)
        else:
            headers = [(b"content-type", b"application/octet-stream"), SECRETIVE]
            exchange.respond(Response(200, text, headers))
