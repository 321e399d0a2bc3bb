"""From signals to `Stop`. SIGQUIT also writes down what everything is doing."""

import asyncio
import faulthandler
import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mooring.host.stop import Stop

__all__ = ["dump_tasks", "signals_to"]

_ENDING = ("SIGTERM", "SIGINT", "SIGHUP")


@contextmanager
def signals_to(stop: Stop) -> Iterator[None]:
    """Turn signals into requests to end, for the time of the block; then handlers are as before."""
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, object] = {}
    for name in (*_ENDING, "SIGQUIT"):
        number = getattr(signal, name, None)
        if number is None:  # not on Windows
            continue
        before[number] = signal.getsignal(number)
        if name == "SIGQUIT":
            loop.add_signal_handler(number, _on_quit, stop)
        else:
            loop.add_signal_handler(number, stop.request, name)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)  # type: ignore[arg-type]


def _on_quit(stop: Stop) -> None:
    dump_tasks()
    if not stop.requested:
        stop.request("SIGQUIT")


def dump_tasks() -> None:
    """All tasks and all threads' stacks, on stderr."""
    page = io.StringIO()
    tasks = asyncio.all_tasks()
    print(f"--- {len(tasks)} tasks", file=page)
    for task in sorted(tasks, key=lambda task: task.get_name()):
        print(f"{task.get_name()}:", file=page)
        task.print_stack(file=page)
    print("--- threads", file=page)
    sys.stderr.write(page.getvalue())
    sys.stderr.flush()
    faulthandler.dump_traceback(all_threads=True)
