"""Mooring in front of servers whose every line is written down, and what was written."""

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.e2e.mooring import Mooring, running_mooring
from tests.e2e.program import ROOT, Json

__all__ = ["Tap", "tapped_mooring"]


class Tap:
    """What arrived at the servers, by `tap.py`: one file for each of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _records(self) -> list[list[Json]]:
        # At b"\n" and nowhere else: JSON may hold what Python takes for the end of a line.
        return [
            [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
            for path in self._folder.iterdir()
        ]

    def lines(self, method: str) -> list[Json]:
        return [
            message for record in self._records() for message in record if message.get("method") == method
        ]

    def call_of(self, tool: str) -> Json:
        """The only call of that tool."""
        (call,) = [call for call in self.lines("tools/call") if call["params"]["name"] == tool]
        return call

    def was_cancelled(self, **arguments: str) -> bool:
        """Was the only call with these arguments cancelled, at the server that had it?"""
        (cancelled,) = [
            any(other.get("params", {}).get("requestId") == line["id"] for other in record)
            for record in self._records()
            for line in record
            if line.get("method") == "tools/call" and line["params"].get("arguments") == arguments
        ]
        return cancelled

    def conversation(self) -> list[str]:
        """The methods that the only server that served calls was given."""
        (record,) = [
            record for record in self._records() if any(line.get("method") == "tools/call" for line in record)
        ]
        return [message["method"] for message in record if "method" in message]


@asynccontextmanager
async def tapped_mooring(path: Path, *, server: Sequence[str | Path]) -> AsyncIterator[tuple[Mooring, Tap]]:
    """As `running_mooring`; what its servers are given is written down under `path`."""
    record = path / "record"
    record.mkdir()
    tapped: list[str | Path] = [sys.executable, ROOT / "tests/e2e/tap.py", record, *server]
    async with running_mooring(server=tapped) as mooring:
        yield mooring, Tap(record)
