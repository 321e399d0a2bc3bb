"""Which transport a URL speaks, whatever answers there; and that asking leaves nothing behind."""

import asyncio
import json

import pytest

from mooring.http.client import Client
from mooring.http.client_errors import AnswerLost, NotSent
from mooring.http.origin import parse_url
from mooring.oauth.challenges import bearer_of
from mooring.remote.detecting import detect, speaks_modern
from mooring.remote.endpoint import Endpoint
from mooring.remote.policy import RemotePolicy
from tests.hosting import hosting
from tests.http_client import echo, serving
from tests.old_sse import NoCredentials, named_event, old_server
from tests.raw_server import LAST_CHUNK, Asked, Wire, answer, chunk, raw_server, stream_head
from tests.support import within


async def detected(url: str, credentials: NoCredentials | None = None, **policy: float) -> str | None:
    bounds = RemotePolicy(**policy)  # type: ignore[arg-type]
    origin, target = parse_url(url)
    client = Client(origin)
    try:
        async with within():
            return await detect(Endpoint(client, target, credentials or NoCredentials(), bounds), bounds)
    finally:
        await client.aclose()


async def test_ours_and_an_older_one() -> None:
    async with hosting() as host:
        assert await detected(host.url) == "http"
        await host.logged("session_closed")
    async with old_server() as server:

        async def refuse(asked: Asked, wire: Wire) -> bytes | None:
            not_found = asked.method == "POST" and asked.target == "/sse"
            return answer(status="404 Not Found") if not_found else await server.script(asked, wire)

        server.raw.script = refuse
        assert await detected(server.url) == "sse"


ENDPOINT = stream_head() + named_event("endpoint", "/messages")


@pytest.mark.parametrize(
    ("posted", "got", "found"),
    [
        (answer(b"{}"), b"", "http"),
        (stream_head(), b"", "http"),
        (answer(status="202 Accepted"), b"", "http"),
        *((answer(status=status), ENDPOINT, "sse") for status in ("400 Bad", "404 No", "405 No")),
        (answer(status="404 No"), answer(status="404 No"), None),
        (answer({"error": {}}, "400 Bad"), answer(status="405 No"), None),
        (answer(status="405 No"), answer(b"<html>", kind="text/html"), None),
        (answer(status="405 No"), stream_head() + LAST_CHUNK, None),
        (answer(status="405 No"), stream_head() + named_event("message", "{}"), None),
        (answer(status="405 No"), stream_head() + b"garbage", None),
        (answer(status="405 No"), stream_head() + chunk(b"data: " + b"x" * 100_000), None),
        (answer(status="405 No"), stream_head(), None),
        (answer(status="401 Who"), ENDPOINT, None),
        (answer(status="403 No"), ENDPOINT, None),
        (answer(status="500 Oh"), ENDPOINT, None),
        (answer(status="302 Found", Location="/x"), ENDPOINT, None),
    ],
)
async def test_what_answers_mean(posted: bytes, got: bytes, found: str | None) -> None:
    async def script(asked: Asked, wire: Wire) -> bytes:
        return posted if asked.method == "POST" else got

    async with raw_server(script) as server:
        assert await detected(server.url, note_timeout_s=0.1) == found
        assert server.requests[0].message["method"] == "initialize"


async def test_a_session_that_was_opened_is_ended_if_the_server_hears_of_it() -> None:
    async def script(asked: Asked, _wire: Wire) -> bytes | None:
        return answer(b"{}", Mcp_Session_Id="s") if asked.method == "POST" else None

    async with raw_server(script) as server:
        assert await detected(server.url, farewell_timeout_s=0.05) == "http"
        assert [asked.method for asked in server.requests] == ["POST", "DELETE"]
        assert server.requests[1].headers["mcp-session-id"] == "s"


class Renewed(NoCredentials):
    async def ready(self) -> None:
        pass

    async def renew(self, status: int = 401, challenge: bytes | None = None) -> bool:
        self.headers = [(b"Authorization", b"new")]
        return True


async def test_credentials_are_renewed() -> None:
    async def script(asked: Asked, _wire: Wire) -> bytes:
        return answer(b"{}") if "authorization" in asked.headers else answer(status="401 Who")

    async with raw_server(script) as server:
        assert await detected(server.url, Renewed()) == "http"


async def test_every_challenge_of_a_refusal_is_told_to_the_credentials() -> None:
    class Told(NoCredentials):
        challenge = b""

        async def renew(self, status: int = 401, challenge: bytes | None = None) -> bool:
            self.challenge = challenge or b""
            return False

    fields = 'WWW-Authenticate: Basic realm="x"\r\nWWW-Authenticate: Bearer scope="a b"'

    async def script(_asked: Asked, _wire: Wire) -> bytes:
        return f"HTTP/1.1 401 Who\r\n{fields}\r\nContent-Length: 0\r\n\r\n".encode()

    async with raw_server(script) as server:
        credentials = Told()
        assert await detected(server.url, credentials) is None
        assert bearer_of([credentials.challenge]).scopes == ("a", "b")


async def test_nobody_answers() -> None:
    async def mute(_asked: Asked, _wire: Wire) -> None:
        await asyncio.Event().wait()

    async with raw_server(mute) as server:
        with pytest.raises(AnswerLost, match="did not answer"):
            await detected(server.url, handshake_timeout_s=0.05)
    with pytest.raises(NotSent):
        await detected(server.url)
    async with serving(echo) as served:
        assert await detected(f"http://127.0.0.1:{served.port}/x") == "http"


DISCOVERED = {"jsonrpc": "2.0", "id": "mooring-detect", "result": {"supportedVersions": ["2026-07-28"]}}
REJECTED = {"code": -32022, "message": "which?", "data": {"supported": ["2026-07-28"], "requested": "x"}}


@pytest.mark.parametrize(
    ("posted", "found"),
    [
        (answer(DISCOVERED), True),
        (stream_head() + named_event("message", json.dumps(DISCOVERED)) + LAST_CHUNK, True),
        (answer({"jsonrpc": "2.0", "id": "mooring-detect", "error": REJECTED}, "400 Bad"), True),
        (
            answer({"jsonrpc": "2.0", "error": {"code": -32000, "message": "No valid session"}}, "400 Bad"),
            False,
        ),
        (
            answer({"jsonrpc": "2.0", "id": "mooring-detect", "error": {"code": -32601, "message": "?"}}),
            False,
        ),
        (answer(b"{}"), False),
        (answer(b"<html>", kind="text/html"), False),
        (stream_head() + LAST_CHUNK, False),
        (answer(status="404 No"), False),
        (answer(status="401 Who"), False),
        (stream_head(), False),
    ],
)
async def test_who_needs_no_handshake(posted: bytes, found: bool) -> None:
    async def script(_asked: Asked, _wire: Wire) -> bytes:
        return posted

    bounds = RemotePolicy(note_timeout_s=0.1)
    async with raw_server(script) as server:
        origin, target = parse_url(server.url)
        client = Client(origin)
        async with within():
            assert await speaks_modern(Endpoint(client, target, NoCredentials(), bounds), bounds) == found
        await client.aclose()
        [asked] = server.requests
        assert (asked.headers["mcp-protocol-version"], asked.headers["mcp-method"]) == (
            "2026-07-28",
            "server/discover",
        )
