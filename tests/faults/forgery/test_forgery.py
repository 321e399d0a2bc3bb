"""A forger gets nothing of its victim, and changes nothing for it."""

import random
import secrets
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.faults.forgery.forger import Forger
from tests.faults.forgery.victim import Victim
from tests.hosting import hosting
from tests.integration.test_eras import SERVER
from tests.mcp_client import Json

TOKENS = {"victim": "a" * 24, "forger": "b" * 24}
SCENES = pytest.mark.parametrize(
    ("era", "shared"), [("handshake", 0), ("handshake", 1), ("modern", 0)], ids=["own", "shared", "modern"]
)
TRIES_BETWEEN_LOOKS = 20


def bearing(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[name]}"}


class Scene:
    """A host with two principals, and everything that it keeps secret known."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens = tmp_path / "tokens"
        self.tokens.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()))
        self.tokens.chmod(0o600)
        self.known: list[str] = []
        make = secrets.token_urlsafe

        def make_known(size: int) -> str:
            self.known.append(make(size))
            return self.known[-1]

        monkeypatch.setattr("secrets.token_urlsafe", make_known)

    async def play(self, era: str, shared: int, tries: int, seed: int) -> None:
        # It takes the first of two members with one name, where Mooring takes the last.
        server = (sys.executable, SERVER, era, *(["--first"] if seed % 2 else []))
        can_be_asked, parks = not shared, era == "handshake" and not shared
        async with AsyncExitStack() as stack:
            silent: Json = {
                "keep_alive_s": 3600,
                "stream_after_s": 3600,
            }  # nothing but answers begins a stream
            listen = {"token_file": self.tokens}
            host = await stack.enter_async_context(
                hosting(server, shared=shared, listen=listen, drain_timeout_s=0.1, **silent)
            )
            victim = Victim(host, bearing("victim"), can_be_asked=can_be_asked, parks=parks)
            await stack.enter_async_context(victim.there())
            rng = random.Random(seed)
            forger = Forger(host.port, bearing("forger"), victim, self.known, rng, parks=parks)
            await stack.enter_async_context(forger.there())
            for n in range(tries):
                await forger.try_something()
                if n % TRIES_BETWEEN_LOOKS == 0:
                    await victim.live_on()
            await victim.look_back()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


@SCENES
@pytest.mark.parametrize("seed", [0, 1])
async def test_a_forger_gets_and_changes_nothing(scene: Scene, era: str, shared: int, seed: int) -> None:
    await scene.play(era, shared, 120, seed)


@pytest.mark.slow
@SCENES
@pytest.mark.parametrize("seed", range(2, 8))
async def test_a_forger_who_tries_for_long(scene: Scene, era: str, shared: int, seed: int) -> None:
    await scene.play(era, shared, 2000, seed)
