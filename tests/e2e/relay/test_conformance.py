"""The official suite through relay and agent: no scenario may be lost on the way.

The suite sends no header of its own, so somebody in front of the relay adds the token, as a client's
configuration would; or it is asked by our own framing, which needs none.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest

from mooring.host.waits import first_of
from tests import parts
from tests.e2e.conformance import examine
from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.relay.place import AGENT, Place, bearer, place
from tests.e2e.serving import fixture_over_http
from tests.e2e.test_conformance import REQUIRED

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(1200)]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: int, field: bytes
) -> None:
    """One request, whose head gets one field more; the connection ends with its answer."""
    with suppress(OSError, asyncio.IncompleteReadError):
        line, *fields = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
        kept = [one for one in fields if not one.lower().startswith(b"connection:")]
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", there)
        far_writer.write(b"\r\n".join([line, *kept, field, b"Connection: close", b"", b""]))
        try:
            await first_of(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            far_writer.transport.abort()
    writer.close()


@asynccontextmanager
async def adding_a_header(there: int, headers: dict[str, str]) -> AsyncIterator[int]:
    """A port that leads to another one; each request gets that header on its way."""
    [(name, value)] = headers.items()
    field = f"{name}: {value}".encode()
    tasks: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_forward(reader, writer, there, field))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def by_http(there: Place) -> AsyncIterator[str]:
    async with adding_a_header(there.port, bearer(there.phone)) as port:
        yield f"http://127.0.0.1:{port}/{AGENT}/fixture/mcp"


@asynccontextmanager
async def by_our_framing(there: Place) -> AsyncIterator[str]:
    words = ("connect", there.address, "--client", "--server", f"{AGENT}/fixture")
    async with there.command(*words, token=there.phone) as client:
        yield await client.printed("http://127.0.0.1")
        assert await client.end() == 0, client.told()


@pytest.mark.parametrize(
    ("way", "revision"),
    [
        pytest.param(by_http, "2025-11-25", id="http-2025-11-25"),
        pytest.param(by_http, "2026-07-28", id="http-2026-07-28"),
        pytest.param(by_our_framing, "2025-11-25", id="framing-2025-11-25"),
        pytest.param(by_our_framing, "2026-07-28", id="framing-2026-07-28"),
    ],
)
async def test_every_required_scenario_passes(
    way: Callable[[Place], AbstractAsyncContextManager[str]], revision: str, tmp_path: Path
) -> None:
    parts.require("npm", "node", "sdk-2")
    async with (
        # Over HTTP: it need not be started for each of the suite's many sessions.
        fixture_over_http() as fixture,
        place(tmp_path, {"fixture": fixture}) as there,
        way(there) as url,
    ):
        report = await examine(url, revision, tmp_path / "suite")
        [agent] = (await there.told("relay", "status"))["agents"]
    print(report.table())
    assert report.passed == len(report.required) == REQUIRED[revision], report.table()
    assert report.exit_status == 0
    assert agent["calls"] > REQUIRED[revision] and not agent["bad_envelopes"] and not agent["reconnects"]
