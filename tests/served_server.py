"""An MCP server over HTTP that listens on the port in PORT: `python served_server.py [OPTIONS]`.

It has a session for whoever asks, answers with events or (`--json`) with JSON, and writes to stdout and
stderr.
Its tools:

    echo      says what it is told
    about     its pid, how many sessions there are, and the value of a variable
    hang      says that it has begun, and never ends
    crash     ends the process with that status, before an answer or (`answered`) after it
    cut       ends the connection in place of an answer
    close     listens no more, and runs on

It can be made to begin as few would wish: see the options.
"""

import argparse
import json
import os
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
TOOLS = [{"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]
SESSIONS: set[str] = set()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    unready = 0
    unready_status = 503
    bare_status = 400
    as_json = False
    is_closing = False
    path = "/mcp"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: tests look for what is said on purpose."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.unready > 0:
            self.server.unready -= 1
            self._head(self.server.unready_status, 0)
            return
        message = json.loads(body)
        method, session = message.get("method"), self.headers.get("Mcp-Session-Id")
        if self.path != self.server.path:
            self._head(404, 0)
        elif method == "initialize":
            self._initialize(message)
        elif session not in SESSIONS:
            self._head(404 if session else self.server.bare_status, 0)
        elif "id" not in message:
            self._head(202, 0)
        elif method == "tools/call":
            self._call(message["id"], message["params"])
        else:
            self._answer(message["id"], {"tools": TOOLS} if method == "tools/list" else {})

    def do_GET(self) -> None:
        self._head(405, 0)

    def do_DELETE(self) -> None:
        SESSIONS.discard(self.headers.get("Mcp-Session-Id", ""))
        self._head(204, 0)

    def _initialize(self, message: Json) -> None:
        session = uuid.uuid4().hex
        SESSIONS.add(session)
        about = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "served", "version": "1"},
        }
        self._answer(message["id"], about, session)

    def _call(self, id: Any, params: Json) -> None:
        name, arguments = params["name"], params.get("arguments", {})
        if name == "hang":
            self._begin_events()
            self._event({"method": "notifications/message", "params": {"level": "info", "data": "begun"}})
            time.sleep(3600)
        elif name == "crash":
            if arguments.get("answered"):
                self._say(id, "crashing")
            os._exit(arguments.get("code", 1))
        elif name == "cut":
            self._begin_events()
            self.close_connection = True
        elif name == "close":
            self.server.is_closing = True
            self._say(id, "closed")
            threading.Thread(target=self._stop_listening, daemon=True).start()
        elif name == "about":
            value = os.environ.get(arguments.get("variable", ""))
            self._say(id, json.dumps({"pid": os.getpid(), "sessions": len(SESSIONS), "value": value}))
        else:
            self._say(id, arguments.get("text", ""))

    def _stop_listening(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _say(self, id: Any, text: str) -> None:
        self._answer(id, {"content": [{"type": "text", "text": text}]})

    def _answer(self, id: Any, result: Json, session: str = "") -> None:
        message = {"id": id, "result": result}
        if self.server.as_json:
            body = json.dumps({"jsonrpc": "2.0", **message}).encode()
            self._head(200, len(body), session, "application/json")
            self.wfile.write(body)
        else:
            self._begin_events(session)
            self._event(message)
            self.wfile.write(b"0\r\n\r\n")

    def _begin_events(self, session: str = "") -> None:
        self._head(200, None, session, "text/event-stream")

    def _event(self, message: Json) -> None:
        data = f"data: {json.dumps({'jsonrpc': '2.0', **message})}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def _head(self, status: int, length: int | None, session: str = "", kind: str = "") -> None:
        self.send_response(status)
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        elif status != 204:
            self.send_header("Content-Length", str(length))
        if kind:
            self.send_header("Content-Type", kind)
        if self.server.is_closing:
            self.send_header("Connection", "close")
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--late", type=float, default=0.0, help="listen after so many seconds")
    parser.add_argument("--unready", type=int, default=0, help="answer --unready-status so many times")
    parser.add_argument("--unready-status", type=int, default=503)
    parser.add_argument("--bare-status", type=int, default=400, help="to what is of no session")
    parser.add_argument("--never", action="store_true", help="do not listen at all")
    parser.add_argument("--exit", type=int, help="exit at once with this status")
    parser.add_argument("--path", default=Server.path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, help="whatever PORT says")
    parser.add_argument("--detached", action="store_true", help="close stdin and stdout")
    asked = parser.parse_args()
    port = asked.port if asked.port is not None else int(os.environ["PORT"])
    print(f"about to listen on {port}", flush=True)
    print("a word on stderr", file=sys.stderr, flush=True)
    if asked.exit is not None:
        sys.exit(asked.exit)
    if asked.detached:
        os.close(0)
        os.close(1)
    time.sleep(asked.late)
    while asked.never:
        time.sleep(3600)
    server = Server((asked.host, port), Handler)
    server.unready, server.as_json, server.path = asked.unready, asked.json, asked.path
    server.unready_status, server.bare_status = asked.unready_status, asked.bare_status
    server.serve_forever()
    threading.Event().wait()


if __name__ == "__main__":
    main()
