"""What a client offers in the first message of TLS, as far as we need it: its ALPN protocols. Pure.

Only the handshakes that happen while an authority looks at us are read like this. TLS itself reads each of
them afterwards: whatever is wrong with one is found there, so that here everything odd is simply no offer.
"""

__all__ = ["ClientHello"]

HANDSHAKE, CLIENT_HELLO, ALPN = 22, 1, 16
RECORD_HEAD, MESSAGE_HEAD = 5, 4
LONGEST = 16 * 1024
"""One record. Authorities send some 200 bytes, browsers up to 2 KiB."""


class ClientHello:
    """Fed with what arrives, until it is complete. Each byte is looked at once, however it arrives."""

    def __init__(self) -> None:
        self._left = LONGEST
        self._record = bytearray()
        """That has begun."""
        self._message = bytearray()
        """Of the records before it."""
        self.is_complete = False
        """Nothing more will be learned."""
        self.protocols: frozenset[bytes] = frozenset()
        """That are offered, once it is complete."""

    def feed(self, data: bytes) -> None:
        """What came next on the connection."""
        at = 0
        while not self.is_complete and at < len(data):
            head = self._record[:RECORD_HEAD]
            lacking = RECORD_HEAD - len(head) or self._end_of_record - len(self._record)
            self._record += data[at : at + lacking]
            at += lacking
            if len(self._record) >= RECORD_HEAD and len(self._record) == self._end_of_record:
                self._message += self._record[RECORD_HEAD:]
                self._record.clear()
            self._look()
        self._left -= len(data)
        if self._left < 0:
            self._end()

    @property
    def _end_of_record(self) -> int:
        return RECORD_HEAD + int.from_bytes(self._record[3:RECORD_HEAD])

    def _look(self) -> None:
        """Is it something else, or all of it?"""
        kind = self._record[:1] or bytes([HANDSHAKE])
        if kind[0] != HANDSHAKE or self._message[:1] not in (b"", bytes([CLIENT_HELLO])):
            self._end()
        elif len(self._message) >= MESSAGE_HEAD:
            end = MESSAGE_HEAD + int.from_bytes(self._message[1:MESSAGE_HEAD])
            if len(self._message) >= end:
                self.protocols = frozenset(_protocols(memoryview(bytes(self._message))[MESSAGE_HEAD:end]))
                self._end()

    def _end(self) -> None:
        self.is_complete = True
        self._record.clear()
        self._message.clear()


def _protocols(hello: memoryview) -> list[bytes]:
    """Of a hello without its head. RFC 8446, 4.1.2 and RFC 7301, 3.1."""
    rest = hello[2 + 32 :]  # version, random
    for width in (1, 2, 1):  # session id, cipher suites, compression methods
        _, rest = _vector(rest, width)
    extensions, _ = _vector(rest, 2)
    while extensions:
        kind = int.from_bytes(extensions[:2])
        content, extensions = _vector(extensions[2:], 2)
        if kind == ALPN:
            return _names(_vector(content, 2)[0])
    return []


def _names(names: memoryview) -> list[bytes]:
    found = []
    while names:
        name, names = _vector(names, 1)
        found.append(bytes(name))
    return found


def _vector(data: memoryview, width: int) -> tuple[memoryview, memoryview]:
    """What is behind a length of so many bytes, and what follows. One that is cut ends everything."""
    end = width + int.from_bytes(data[:width])
    return data[width:end], data[end:]
