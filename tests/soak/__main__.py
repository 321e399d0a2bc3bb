"""See the package's own words."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path

import uvloop

import tests.soak
from tests.soak import calls, mixed, sessions
from tests.soak.report import Report


def main() -> int:
    options = _options()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_terminated(_soak(options))).status


async def _until_terminated(soak: Coroutine[None, None, Report]) -> Report:
    """So that nothing is left behind when somebody ends it."""
    task = asyncio.ensure_future(soak)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description=tests.soak.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", nargs="?", choices=("mixed", "sessions", "calls"), default="mixed")
    parser.add_argument("number", nargs="?", type=int, help="of sessions or calls")
    parser.add_argument("--minutes", type=float, default=30.0, help="of mixed load (default: 30)")
    parser.add_argument("--out", type=Path, default=Path(".soak"), help="where samples and picture go")
    parser.add_argument("--seed", type=int, default=1, help="of all that is random (default: 1)")
    return parser.parse_args()


def _soak(options: argparse.Namespace) -> Coroutine[None, None, Report]:
    if options.kind == "sessions":
        return sessions.soak(options.number or 100_000, options.out, options.seed)
    if options.kind == "calls":
        return calls.soak(options.number or 1_000_000, options.out, options.seed)
    return mixed.soak(options.minutes, options.out, options.seed)


if __name__ == "__main__":
    sys.exit(main())
