"""Bytes that a peer may send, made of parts: mostly good ones, some odd, and then perhaps damaged.

Which part is taken is read from a tape, any bytes at all: whoever makes tapes (hypothesis, a fuzzer)
makes requests, and a tape of zeros is the plainest request there is, which is where shrinking ends.
"""

# fmt: off
GOOD: dict[str, list[bytes]] = {
    "method": [b"GET", b"POST", b"DELETE", b"OPTIONS", b"PUT", b"HEAD", b"PATCH"],
    "space": [b" "],
    "target": [b"/", b"/mcp", b"/a/b?c=d", b"/%41%C3%A4", b"http://a/x?y", b"HTTP://A:80", b"http://a:80/?"],
    "space 2": [b" "],
    "version": [b"HTTP/1.1"] * 9 + [b"HTTP/1.0"],
    "line end": [b"\r\n"],
    "host": [b"Host: a\r\n", b"host:A:80\r\n", b"HOST:\t a:80 \r\n"],
    "field": [b"", b"", b"X: y\r\n", b"X-!#$%&'*+.^_`|~: a\tb \x80\xff\r\n", b"X:\r\nX: \t\r\n",
              b"Accept: */*, a;q=0\r\n"],
    "field 2": [b"", b"", b"Connection: close\r\n", b"Connection: x, Keep-Alive\r\n",
                b"Expect: 100-continue\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
                b"Upgrade: websocket\r\n", b"Connection: upgrade\r\n", b"Proxy-Connection: close\r\n",
                b"Proxy-Connection: keep-alive\r\n"],
    "head end": [b"\r\n"],
    "size": [b"%x", b"%X", b"0%x", b"%020x"],
    "extension": [b"", b"", b";a", b";a=b", b';a="b c"', b";a;b=1"],
    "chunk end": [b"\r\n"],
    "data end": [b"\r\n"],
    "last": [b"0\r\n", b"00\r\n", b"0;a\r\n"],
    "trailer": [b"", b"", b"X: y\r\n", b"Host: b\r\nExpect: x\r\n", b"Upgrade: x\r\n", b"X:\r\n"],
    "body end": [b"\r\n"],
}

LINE_ENDS = [b"\n", b"\r", b"\r\r\n", b"\n\r", b"", b"\r\n ", b"\r\n\t", b" \r\n", b"\0\r\n", b"\r\n\r\n",
             b"\x0b\r\n"]
OPTIONS = [b"keep-alive, close", b"close x", b"closed", b"close;", b",close,", b"", b"keep-alive x",
           b"close\tx", b"clo se", b"close\r\nConnection: keep-alive"]
EXPECTATIONS = [b"", b"200-x", b"100-continue, x", b"100-Continue\r\nExpect: x"]
LENGTHS = [b"+5", b"-5", b" 5", b"5 ", b"5 5", b"5,5", b"5, 6", b"0x5", b"05", b"", b"5.0", b"1e1", b"300",
           b"301", b"4294967297", b"18446744073709551616", b"99999999999999999999",
           b"999999999999999999999", b"\xb2", b"5\r\nContent-Length: 5", b"5\r\nContent-Length: 6",
           b"5\x0b"]
CODINGS = [b"chunked", b"Chunked", b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, chunked",
           b"identity", b"xchunked", b"chunked;q=1", b'"chunked"', b"chunked ", b"\x0bchunked", b"",
           b"chunked,", b", chunked", b"chunked\r\nTransfer-Encoding: chunked",
           b"chunked\r\nTransfer-Encoding: gzip", b"chun\r\n ked"]
HIDDEN = [b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding\t: chunked\r\n",
          b"X: y\rTransfer-Encoding: chunked\r\n", b"X: y\nTransfer-Encoding: chunked\r\n",
          b"Transfer-Encoding:\nchunked\r\n", b"Content-Length : 5\r\n"]

ODD: dict[str, list[bytes]] = {
    "method": [b"get", b"BREW", b"CONNECT", b"TRACE", b"PRI", b"QUERY", b"M-SEARCH", b"DESCRIBE", b"G@T",
               b"", b"GETS", b"\r\nGET", b"\nPOST", b" GET", b"\0GET"],
    "space": [b"  ", b"\t", b"", b" \t"],
    "target": [b"*", b"", b"x", b"a:80", b"http://b/", b"http://a:81/", b"http://u@a/", b"http:///",
               b"ftp://a/", b"//a/b", b"/#f", b"/%", b"/%0a", b"/%ff", b"/\xff", b"/\x7f",
               b"/" + b"a" * 119, b"/" + b"a" * 120, b"/?%zz", b"?", b"http://a?b", b"http://[::1]/",
               b"/a b", b"/a\tb", b"http://a/#f", b"mailto:a", b'/[]|\\^"<>{}`\'', b"/?/?#"],
    "space 2": [b"  ", b"\t", b"", b" \t"],
    "version": [b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.10", b"HTTP/11", b"RTSP/1.0",
                b"ICE/1.0", b"", b"HTTP/1", b"HTTP/1.1 ", b"HTTP/ 1.1", b"HTTP/1,1"],
    "line end": LINE_ENDS,
    "host": [b"", b"Host:\r\n", b"Host: b\r\n", b"Host: a/b\r\n", b"Host: u@a\r\n", b"Host: a b\r\n",
             b"Host: a,a\r\n", b"Host: [::1]\r\n", b"Host: a:x\r\n", b"Host: a:123456\r\n",
             b"Host: a\r\nHost: a\r\n", b"Host: a\n", b"Host: a\r", b"Host : a\r\n", b"Host\r\n",
             b" Host: a\r\n", b"Host: a\r\n b\r\n", b"Host:\0a\r\n"],
    "field": [b"X : y\r\n", b"X\t: y\r\n", b" X: y\r\n", b": y\r\n", b"X\r\n", b"X y\r\n", b"X(: y\r\n",
              b"X\xff: y\r\n", b"X\0: y\r\n", b"X: \0\r\n", b"X: a\x01b\r\n", b"X: \x7f\r\n",
              b"X: \x0b\r\n", b"X: a\rb\r\n", b"X: a\nb: c\r\n", b"X: a\r\n b\r\n", b"X: a\r\n\tb\r\n",
              b"X: a\r\n \r\n", b"X: y\n", b"X: y\r\r\n", b"X: " + b"y" * 600 + b"\r\n", b"X: y\r\n" * 11,
              b"X: y\r\n" * 12, b"Content_Length: 5\r\n", b"content-lengthx: 5\r\n"],
    "field 2": [
        *(b"Connection: %b\r\n" % value for value in OPTIONS),
        *(b"Expect: %b\r\n" % value for value in EXPECTATIONS),
        *(b"Content-Length: %b\r\n" % value for value in LENGTHS),
        *(b"Transfer-Encoding: %b\r\n" % value for value in CODINGS),
        *HIDDEN,
    ],
    "head end": LINE_ENDS,
    "size": [b"+%x", b"-%x", b"0x%x", b" %x", b"%x ", b"%x\t", b"%xg", b"", b"1%x", b"f%020x", b"%x\0",
             b"%x\x0b", b"%x_"],
    "extension": [b";", b"; a", b" ;a", b";a=", b";a=b c", b';a="', b";=", b";a\x01", b";a\n", b';a="\\""',
                  b";a=b;", b";\xff", b';a="\x80"', b"a", b";a\r", b';a="\r\n"', b";" + b"a" * 200],
    "chunk end": LINE_ENDS,
    "data end": LINE_ENDS,
    "last": [b"", b"0\n", b"0\r", b"0", b"-0\r\n", b"0 \r\n", b"0x0\r\n", b"\r\n"],
    "trailer": [b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n",
                b"X : y\r\n", b"X: y\n", b"X: y\r\n z\r\n", b" X: y\r\n", b"X: \x01\r\n", b"X: \0\r\n",
                b"X\r\n", b"\r", b"Upgrade: x\r\nConnection: upgrade\r\n", b"X: " + b"y" * 200 + b"\r\n",
                b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Proxy-Connection: close\r\n"],
    "body end": LINE_ENDS,
}

CONTENTS = [b"x", b"{}", b"hello", b"\r\n", b"0", b"0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\0\xff\n", b"x" * 299, b"x" * 300, b"x" * 301]
NOISE = [b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b"\x0b", b"\x7f", b"\xff", b":", b"#", b"%", b"0", b";",
         b",", b""]
# fmt: on

ODD_FROM = 252
"""Bytes from here on choose an odd part: some four in five requests are good."""
DAMAGED_FROM = 224
"""One in eight streams is damaged."""


class Tape:
    """Choices, read one by one; past its end everything is the plainest."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def next(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def one_of(self, values: list[bytes]) -> bytes:
        return values[self.next() % len(values)]

    def part(self, name: str) -> bytes:
        choice = self.next()
        return self.one_of(ODD[name]) if choice >= ODD_FROM else GOOD[name][choice % len(GOOD[name])]


def request(tape: Tape) -> bytes:
    """One request."""
    head = b"".join(map(tape.part, ("method", "space", "target", "space 2", "version", "line end")))
    head += b"".join(map(tape.part, ("field", "host", "field 2")))
    framing = tape.next() % 4
    if framing == 0:
        return head + tape.part("head end")
    pieces = [tape.one_of(CONTENTS) for _ in range(tape.next() % 3)]
    if framing == 1:
        length = sum(map(len, pieces))
        return head + b"Content-Length: %d\r\n" % length + tape.part("head end") + b"".join(pieces)
    head += b"Transfer-Encoding: chunked\r\n" + tape.part("head end")
    return head + b"".join(_chunk(tape, piece) for piece in pieces) + _last_chunk(tape)


def _chunk(tape: Tape, piece: bytes) -> bytes:
    size = tape.part("size")
    line = (size % len(piece) if b"%" in size else size) + tape.part("extension") + tape.part("chunk end")
    return line + piece + tape.part("data end")


def _last_chunk(tape: Tape) -> bytes:
    return tape.part("last") + tape.part("trailer") + tape.part("body end")


def stream(tape: Tape) -> bytes:
    """What one peer sends: up to four requests."""
    data = b"".join(request(tape) for _ in range(1 + tape.next() % 4))
    if tape.next() >= DAMAGED_FROM:
        at = (tape.next() * 256 + tape.next()) % (len(data) + 1)
        data = data[:at] + tape.one_of(NOISE) + data[at + tape.next() % 4 :]
    return data
