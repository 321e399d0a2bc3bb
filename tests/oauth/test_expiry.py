"""A login whose token expires while a call is under way, with all of Mooring in between."""

from pathlib import Path

from mooring.remote.options import RemoteOptions
from tests.faults.test_remote_server import CALL, PROGRESS
from tests.faults.test_stdio_server import result
from tests.hosting import hosting
from tests.mcp_client import client_of
from tests.oauth.authority import Authority
from tests.oauth.person import log_in
from tests.oauth.test_login_command import ProtectedServer
from tests.raw_server import LAST_CHUNK, Asked, Wire, event, stream_head
from tests.support import until, within


class Expiring(ProtectedServer):
    """The token of a call is good no more once its stream has begun, which is cut then."""

    def __init__(self, authority: Authority) -> None:
        super().__init__(authority)
        self._expire = authority.control
        self._script.special = self._special
        self.executed: list[Asked] = []

    def count(self, method: str) -> int:
        return sum(asked.method == method and asked.target == "/mcp" for asked in self.requests)

    async def _special(self, asked: Asked, wire: Wire) -> bytes | None:
        if asked.headers.get("last-event-id") == "7":
            [call] = self.executed
            return stream_head() + event(result(call, {"content": []}), id="8") + LAST_CHUNK
        if not asked.body or asked.message.get("method") != CALL:
            return b""
        self.executed.append(asked)
        wire.send(stream_head() + event(PROGRESS, id="7", retry=1))
        await wire.writer.drain()
        await self._expire("revoke", asked.headers["authorization"].removeprefix("Bearer "))
        wire.close()
        return None


async def test_a_call_whose_token_expires_ends_with_its_result(authority: Authority, tmp_path: Path) -> None:
    server = Expiring(authority)
    async with server.serving():
        await log_in(server.url, tmp_path)
        remote = RemoteOptions(url=server.url)
        async with (
            hosting(remote=remote, secrets=tmp_path / "secrets") as host,
            client_of(host.port) as client,
        ):
            # What Mooring has asked by itself is over, and the session listens: nobody else meets the end.
            await until(lambda: server.count("DELETE") == 2 and server.count("GET") == 2)
            async with within(60):
                assert await client.result(CALL, {"name": "x", "arguments": {}}) == {"content": []}
            assert len(server.executed) == 1
            assert await authority.refreshes() == 1
            resumed = [asked for asked in server.requests if asked.headers.get("last-event-id") == "7"]
            tokens = [asked.headers["authorization"] for asked in resumed]
            assert len(set(tokens)) == 2, "refused, and let in with another"
