"""The value of a secret is in the environment of its containers, and in nothing else that anybody sees."""

import json
import uuid
from contextlib import suppress
from pathlib import Path

from tests.containers.engines import RealEngine
from tests.e2e.containers.dock import HARD, dock
from tests.e2e.test_secrets_command import keep, kept_files


def cmdlines() -> list[str]:
    """Of every process of the machine."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if folder.name.isdecimal():
                found.append((folder / "cmdline").read_bytes().decode("utf-8", "replace"))
    return found


async def test_a_secret_is_in_the_environment_of_the_container_alone(
    tmp_path: Path, real_engine: RealEngine
) -> None:
    canary = f"canary-{uuid.uuid4().hex}"
    async with dock(tmp_path, real_engine) as ours:
        ours.place.environment["MOORING_DEBUG"] = "1"
        status, *_ = await keep(ours.place, "x", canary)
        assert status == 0
        await ours.run("--env", "TOKEN=secret:x", "--env", "AUTH=Bearer {secret:x}", args=HARD)
        async with ours.client() as client:
            assert (await client.result("x/variable", {"name": "TOKEN"}))["value"] == canary
            assert (await client.result("x/variable", {"name": "AUTH"}))["value"] == f"Bearer {canary}"
            container = await ours.container_of(client)
            assert not [line for line in cmdlines() if canary in line]
            _, seen = real_engine.ask("GET", f"/containers/{container}/json")
            assert f"TOKEN={canary}" in seen["Config"].pop("Env")
            assert canary not in json.dumps(seen)
            _, listed = real_engine.ask("GET", "/containers/json?all=1")
            assert canary not in json.dumps(listed)
            told = [
                await ours.place.done(*words)
                for words in (
                    ("ls",),
                    ("ls", "--json"),
                    ("status", "demo"),
                    ("status", "demo", "--json"),
                    ("export", "demo"),
                    ("export", "--all"),
                    ("logs", "demo"),
                    ("events",),
                    ("events", "--json"),
                )
            ]
            assert not [text for text in told if canary in text]
            assert "secret:x" in told[3] and "secret:x" in told[4]
            await ours.kill(container)
            assert (await client.result("x/variable", {"name": "TOKEN"}))["value"] == canary
            await ours.place.done("daemon", "restart")
            assert (await client.result("x/variable", {"name": "TOKEN"}))["value"] == canary
        for path in kept_files(ours.place.state):
            assert canary.encode() not in path.read_bytes(), path
