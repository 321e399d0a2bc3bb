"""The practical limit of the design: HTTP to one server process and back, and nothing else.

`python -m bench.minimal_bridge PORT COMMAND…` does what any bridge in this design must: asyncio Protocol,
httptools, uvloop, msgspec, one child for all sessions with ids rewritten. It has no session checks, limits,
streams, restarts, logs, metrics or drain, and must never be used for anything but this comparison.
"""

import asyncio
import sys
from collections import deque
from itertools import count
from typing import cast

import httptools
import msgspec
import uvloop


class Question(msgspec.Struct, gc=False):
    method: str = ""
    id: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw(b"{}")


class Answer(msgspec.Struct, gc=False):
    id: int = -1
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


read_question = msgspec.json.Decoder(Question).decode
read_answer = msgspec.json.Decoder(Answer).decode
encode = msgspec.json.encode
SESSION = b"mcp-session-id: one-for-all\r\n"


class Child(asyncio.SubprocessProtocol):
    """The server. A question's number finds the connection and the id it came with."""

    stdin: asyncio.WriteTransport

    def __init__(self) -> None:
        self._asked: dict[int, tuple[asyncio.Transport, bytes, bytes]] = {}
        self._introduction: bytes | None = None
        self._numbers = count()
        self._unfinished: deque[bytes] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        process = cast("asyncio.SubprocessTransport", transport)
        self.stdin = cast("asyncio.WriteTransport", process.get_pipe_transport(0))

    def process_exited(self) -> None:
        sys.exit("the server ended")

    def ask(self, question: Question, client: asyncio.Transport) -> None:
        head = b"" if question.method != "initialize" else SESSION
        if head and self._introduction:  # many sessions, one server: it is introduced once
            reply(client, bytes(question.id), head, self._introduction)
            return
        number = next(self._numbers)
        self._asked[number] = client, bytes(question.id), head
        self.tell(question, b'"id":%d,' % number)

    def tell(self, question: Question, id: bytes = b"") -> None:
        method, params = encode(question.method), bytes(question.params)
        line = (b'{"jsonrpc":"2.0",', id, b'"method":', method, b',"params":', params, b"}\n")
        self.stdin.write(b"".join(line))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        # Pieces are joined once, at the end of their line: a long line costs its length.
        *lines, rest = data.split(b"\n")
        if lines and self._unfinished:
            lines[0] = b"".join((*self._unfinished, lines[0]))
            self._unfinished.clear()
        for line in lines:
            self._deliver(line)
        if rest:
            self._unfinished.append(rest)

    def _deliver(self, line: bytes) -> None:
        answer = read_answer(line)
        if (asked := self._asked.pop(answer.id, None)) is None:
            return
        client, id, head = asked
        outcome = b'"result":' + answer.result if answer.result else b'"error":' + answer.error
        if head:
            self._introduction = outcome
        reply(client, id, head, outcome)


def reply(client: asyncio.Transport, id: bytes, head: bytes, outcome: bytes) -> None:
    body = b"".join((b'{"jsonrpc":"2.0","id":', id, b",", outcome, b"}"))
    length = b"content-length: %d\r\n\r\n" % len(body)
    client.write(b"".join((b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n", head, length, body)))


class Connection(asyncio.Protocol):
    """One client: a body is complete, its message goes to the child."""

    transport: asyncio.Transport

    def __init__(self, child: Child) -> None:
        self._child = child
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        if not body:
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            return
        question = read_question(body)
        if question.id:
            self._child.ask(question, self.transport)
        else:
            self._child.tell(question)
            self.transport.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")


async def serve(port: int, command: list[str]) -> None:
    loop = asyncio.get_running_loop()
    _, child = await loop.subprocess_exec(Child, *command, stderr=None)
    server = await loop.create_server(lambda: Connection(child), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2:]))
