"""Every feature, from every client in every mode, in front of servers of one era or of both.

The server is the same every time, on the SDK's newest version; `one_revision.py` takes an era from it. What
it asks of its client are requests in one era and results in the other; no client and no server may notice.
"""

import json
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest
import pytest_asyncio

from tests import parts
from tests.e2e.client import Client, RemoteError, connected
from tests.e2e.inspector import list_and_call
from tests.e2e.mooring import LINUX_ONLY, Mooring
from tests.e2e.program import ROOT
from tests.e2e.serving import FIXTURE
from tests.e2e.tapping import Tap, tapped_mooring
from tests.support import until

pytestmark = [
    LINUX_ONLY,
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
SERVERS = [
    pytest.param(HANDSHAKE, id="handshake"),
    pytest.param(MODERN, id="modern"),
    # Nothing crosses here, and the conformance suite has it too.
    pytest.param(None, id="dual", marks=pytest.mark.slow),
]
"""Which revision alone the server speaks."""
CLIENTS = [
    ("python-1", "legacy"),
    ("typescript-1", "legacy"),
    *product(("python-2", "typescript-2"), ("legacy", "auto", MODERN)),
]
ANSWERS = {
    "user": {"action": "accept", "content": {"answer": "forty-two"}},
    "model": {
        "role": "assistant",
        "content": {"type": "text", "text": "a model's words"},
        "model": "test",
    },
    "roots": {"roots": [{"uri": "file:///harbour"}]},
}
WATCHED = "test://watched-resource"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SERVERS)
async def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Mooring, Tap]]:
    """One Mooring for all clients of a server: they come one after the other, of either era."""
    parts.require("sdk-2")
    python, revision = parts.python_of("sdk-2"), request.param
    only: list[str | Path] = (
        [] if revision is None else [python, ROOT / "tests/e2e/one_revision.py", revision]
    )
    path = tmp_path_factory.mktemp("served")
    async with tapped_mooring(path, server=[*only, python, FIXTURE]) as served:
        yield served


async def calls(client: Client) -> None:
    assert "ask_user" in await client.do("list_tools")
    assert await client.text("test_simple_text") == "This is a simple text response for testing."
    with pytest.raises(RemoteError) as unknown:
        await client.call("no_such_tool")
    assert unknown.value.code == -32602


async def progress(client: Client) -> None:
    number = await client.start("call", tool="test_tool_with_progress", progress=True)
    assert not (await client.answer(number)).get("isError")
    # The SDKs for TypeScript drop the handler at the answer, but run it later: the last may be lost.
    for done in (0, 50):
        await client.event("progress", call=number, progress=done, total=100)


async def questions(client: Client) -> None:
    """Elicitation, sampling and roots: one at a time, and all at once."""
    for key, answer in ANSWERS.items():
        assert json.loads(await client.text(f"ask_{key}")) == {key: answer}
    seen = client.seen
    assert json.loads(await client.text("ask_all")) == ANSWERS
    asked = await client.event("asked", method="elicitation/create", since=seen)
    assert asked["params"]["message"] == "How many?"
    for method in ("sampling/createMessage", "roots/list"):
        await client.event("asked", method=method, since=seen)


async def logging(client: Client) -> None:
    await client.do("set_level", level="debug")
    await client.text("test_tool_with_logging")
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await client.event(
            "notification", method="notifications/message", params={"level": "info", "data": words}
        )


async def changes(client: Client) -> None:
    await client.do("subscribe", uri=WATCHED)
    for kind in ("tool", "prompt", "resource"):
        await client.text(f"test_trigger_{kind}_change")
        await client.event("notification", method=f"notifications/{kind}s/list_changed")
    await client.text("touch_watched_resource")
    updated = await client.event("notification", method="notifications/resources/updated")
    assert updated["params"]["uri"] == WATCHED


async def every_feature(client: Client) -> None:
    """But for cancellation, which is seen where it arrives."""
    for feature in (calls, progress, questions, logging, changes):
        await feature(client)


async def cancellation(client: Client, tap: Tap, who: str) -> None:
    number = await client.start("call", tool="wait", arguments={"who": who}, progress=True)
    await client.event("progress", call=number)
    await client.do("cancel", call=number)
    with pytest.raises(RemoteError):
        await client.answer(number)
    await until(lambda: tap.was_cancelled(who=who))


@pytest.mark.parametrize(("kind", "mode"), CLIENTS)
async def test_every_feature_crosses(served: tuple[Mooring, Tap], kind: str, mode: str) -> None:
    mooring, tap = served
    async with connected(kind, mooring.url, mode=mode) as (client, connection):
        assert connection["version"] == (HANDSHAKE if mode == "legacy" else MODERN)
        await every_feature(client)
        await cancellation(client, tap, f"{kind} {mode}")
        await calls(client)


@pytest.mark.parametrize("era", ["legacy", "auto", "modern"])
async def test_the_inspector_lists_and_calls(served: tuple[Mooring, Tap], era: str, tmp_path: Path) -> None:
    said = await list_and_call(served[0].url, "test_simple_text", {}, home=tmp_path, era=era)
    assert "for testing" in said
