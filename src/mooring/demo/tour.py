"""`make demo`: what Mooring does, shown with the installed command and a plain HTTP client."""

import http.client
import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = ["main"]

Json = dict[str, Any]

PATIENCE_S = 30.0
VERSION = "2025-11-25"
WIDTH = 78
NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"


class TourError(Exception):
    """Something did not go as promised."""


class ReaderGone(Exception):
    """Whoever read the tour has seen enough, as in `make demo | head`."""


class Mooring:
    """`mooring run --foreground` as a subprocess, and what it logs."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.log: list[str] = []
        self.pids = {self.process.pid}
        """Every process that was ever mentioned."""
        self._events: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None  # noqa: S101 - it is a pipe
        with self.process.stderr as lines:
            for line in lines:
                self.log.append(line.decode(errors="replace").rstrip())
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # not a line of log
                if isinstance(event, dict):
                    if isinstance(event.get("pid"), int):
                        self.pids.add(event["pid"])
                    self._events.put(event)
        self._events.put({"event": "end of log"})

    def wait_for(self, name: str) -> Json:
        """The next event of that name."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise TourError(f"Mooring did not report {name!r} within {PATIENCE_S:.0f} s") from None
            if event.get("event") == name:
                return event
            if event.get("event") == "end of log":
                raise TourError(f"Mooring ended before it reported {name!r}")

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.terminate()
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise TourError(f"Mooring did not stop within {PATIENCE_S:.0f} s") from None
        self._reader.join(PATIENCE_S)
        return status

    def close(self) -> None:
        """Whatever happened: it does not outlive the tour."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(PATIENCE_S)


class Client:
    """As much of an MCP client as the tour needs, on one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
        self._path = parts.path
        self._last_id = 0
        self.session = ""

    def open(self) -> Json:
        """Initialize a session; what the server says about itself."""
        client = {"name": "mooring-tour", "version": "1"}
        result = self.request(
            "initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}
        )
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}).read()
        return result

    def call(self, tool: str, **arguments: object) -> Json:
        """The result of a tool call."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def request(self, method: str, params: Json) -> Json:
        """The result of a request."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        answer = self._answer(self._post(message), self._last_id)
        if "result" not in answer:
            raise TourError(f"{method} was answered with {json.dumps(answer)}")
        result: Json = answer["result"]
        return result

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _post(self, message: Json) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": VERSION}
        self._connection.request("POST", self._path, json.dumps(message), headers)
        response = self._connection.getresponse()
        self.session = response.headers.get("Mcp-Session-Id", self.session)
        return response

    @staticmethod
    def _answer(response: http.client.HTTPResponse, id: int) -> Json:
        if response.headers.get_content_type() == "text/event-stream":
            answer: Json = {}
            for line in response:
                if line.startswith(b"data:") and line[5:].strip():
                    message = json.loads(line[5:])
                    answer = message if message.get("id") == id and "method" not in message else answer
            response.read()  # only this ends a response for http.client; then the next may be asked for
            return answer
        body = response.read()
        try:
            parsed: Json = json.loads(body)
        except ValueError:
            raise TourError(f"HTTP {response.status}: {body[:200]!r}") from None
        return parsed


class Page:
    """What the reader of the tour sees."""

    def __init__(self) -> None:
        self._styled = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._step = 0

    def say(self, text: str = "") -> None:
        """Lines, at once."""
        try:
            print(text, flush=True)
        except BrokenPipeError:
            # Nothing more can be flushed there at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise ReaderGone from None

    def step(self, title: str) -> None:
        """The title of the next step."""
        self._step += 1
        self.say(f"\n{self.styled(f'{self._step}. {title}', '1')}")

    def timed(self, since: float, text: str) -> None:
        """A line about something that has just been done."""
        took = f"({(time.monotonic() - since) * 1000:.0f} ms)"
        # Wrapped as long as it will look: styles take no room.
        indent = " " * 3
        lines = textwrap.fill(
            f"{text}  {took.replace(' ', NO_BREAK_SPACE)}",
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
        )
        self.say(f"{lines[: -len(took)]}{self.styled(took, '2')}")

    def styled(self, text: str, code: str) -> str:
        """Bold or dim, where that can be seen."""
        return f"\x1b[{code}m{text}\x1b[0m" if self._styled else text


def main() -> int:
    """The whole tour; 0 if all went as promised, as far as anybody wanted to see it."""
    try:
        return _tour(Page())
    except ReaderGone:
        return 0


def _tour(page: Page) -> int:
    command = [sys.executable, "-m", "mooring", "run", "--foreground", "demo", "--port", "0"]
    command += ["--log-format", "json", "--", sys.executable, "-m", "mooring.demo"]
    page.say("Mooring runs an MCP server and keeps its sessions alive.")
    page.say("This shows it with a small built-in server.")
    mooring = Mooring(command)
    try:
        _show(page, mooring)
    except (TourError, OSError, http.client.HTTPException) as error:
        page.say(f"\nThis did not work: {error or type(error).__name__}\nThe last lines of Mooring's log:")
        mooring.close()
        for line in mooring.log[-20:]:
            page.say(f"   {line}")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        mooring.close()
    _say_what_next(page)
    return 0


def _show(page: Page, mooring: Mooring) -> None:
    page.step("Start a server behind Mooring")
    page.say("   $ mooring run --foreground demo --port 0 -- python -m mooring.demo")
    since = time.monotonic()
    url = str(mooring.wait_for("listening").get("url"))
    page.timed(since, f"Listening at {url}")
    with _client(url) as client:
        page.step("A client opens a session and calls a tool")
        before = _first_calls(page, client)
        mooring.pids.add(before["pid"])

        page.step(f"The server is killed:  kill -9 {before['pid']}")
        since = time.monotonic()
        os.kill(before["pid"], signal.SIGKILL)
        _wait_until(lambda: not _exists(before["pid"]), "the killed process is still there")
        page.timed(since, f"Process {before['pid']} is gone.")
        page.say("   Without Mooring, the session would be gone with it.")

        page.step("The same client calls again, on the same session")
        session = client.session
        since = time.monotonic()
        after = client.call("counter")["structuredContent"]
        mooring.pids.add(after["pid"])
        page.timed(since, f"counter → {after['count']}, answered by process {after['pid']}")
        if after["pid"] == before["pid"] or client.session != session:
            raise TourError("that was not a new process on the same session")
        page.say(f"   A new process, the same session {session[:8]}…: the client did nothing for it.")
        page.say("   What the server had in memory is lost, so it counts from 1 again;")
        page.say("   clients are told so.")

        page.step("Stop it:  SIGTERM")
        since = time.monotonic()
        status = mooring.stop()
        left = sorted(pid for pid in mooring.pids if _exists(pid))
        page.timed(since, f"Exit status {status}; processes left: {left or 'none'}")
        if status or left:
            raise TourError("it should have ended with 0 and left nothing")


@contextmanager
def _client(url: str) -> Iterator[Client]:
    client = Client(url)
    try:
        yield client
    finally:
        client.close()


def _first_calls(page: Page, client: Client) -> Json:
    since = time.monotonic()
    server = client.open()["serverInfo"]
    page.timed(since, f"Session {client.session[:8]}… with {server['name']} {server['version']}")
    since = time.monotonic()
    names = [tool["name"] for tool in client.request("tools/list", {})["tools"]]
    page.timed(since, f"{len(names)} tools: {', '.join(names)}")
    since = time.monotonic()
    text = client.call("echo", text="Ahoy!")["content"][0]["text"]
    page.timed(since, f"echo 'Ahoy!' → {text!r}")
    for _ in range(3):
        since = time.monotonic()
        state: Json = client.call("counter")["structuredContent"]
        page.timed(since, f"counter → {state['count']}, answered by process {state['pid']}")
    return state


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _wait_until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TourError(otherwise)
        time.sleep(0.001)


def _port(environment: Mapping[str, str]) -> int:
    """Where the daemon will be; if it is to choose (0), the tour cannot know."""
    wanted = environment.get("MOORING_PORT", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) else 4670


def _say_what_next(page: Page) -> None:
    port = _port(os.environ)
    python = _as_typed(Path(sys.executable))
    mooring = _as_typed(Path(sys.executable).with_name("mooring"))
    page.say(f"""
{page.styled("Try it yourself", "1")}

   Keep the demo running, or run a real server (uvx comes with uv, npx with
   Node.js):

     {mooring} run demo -- \\
       {python} -m mooring.demo

     {mooring} run time -- uvx mcp-server-time

     {mooring} run fs -- \\
       npx -y @modelcontextprotocol/server-filesystem .

   Its URL is http://127.0.0.1:{port}/NAME/mcp. For your AI client:

     {{
       "mcpServers": {{
         "demo": {{"type": "http", "url": "http://127.0.0.1:{port}/demo/mcp"}}
       }}
     }}

   Or by hand, in another terminal (bash, zsh). Open a session; its id is in a
   header of the answer, which every later request repeats:

{textwrap.indent(OPEN_A_SESSION.replace(":4670/", f":{port}/"), " " * 5)}
   Call a tool in this session, as often as you like:

{textwrap.indent(CALL_A_TOOL, " " * 5)}
   The answer has the pid of the server's process. Kill it with kill -9, and
   call again. What Mooring knows of it, and the end of all this:

     {mooring} status demo

     {mooring} daemon stop

   All commands: {mooring} --help
""")


OPEN_A_SESSION = f"""\
post() {{
  curl -sS http://127.0.0.1:4670/demo/mcp "$@" \\
    -H 'Content-Type: application/json' \\
    -H 'Accept: application/json, text/event-stream'; echo
}}
SESSION=$(post -i -d '{{
  "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {{
    "protocolVersion": "{VERSION}", "capabilities": {{}},
    "clientInfo": {{"name": "curl", "version": "1"}}}}
  }}' | grep -i '^Mcp-Session-Id:' | tr -d '\\r')
post -H "$SESSION" -d '{{
  "jsonrpc": "2.0", "method": "notifications/initialized"}}'
echo "$SESSION"
"""
CALL_A_TOOL = """\
post -H "$SESSION" -d '{
  "jsonrpc": "2.0", "id": 2, "method": "tools/call",
  "params": {"name": "counter", "arguments": {}}}'
"""


def _as_typed(path: Path) -> str:
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


if __name__ == "__main__":
    sys.exit(main())
