"""`mooring serve` that suspends itself (SIGSTOP) right before one write to the store.

    python frozen_daemon.py WRITE FILE

WRITE is a method of `Store`; FILE must exist for it to happen, and is deleted then: only once.
"""

import signal
import sys
import threading
from pathlib import Path
from typing import Any

from mooring.cli.main import main
from mooring.store.store import Store


def freeze_before(write: str, file: Path) -> None:
    original = getattr(Store, write)

    def late(*given: Any, **named: Any) -> Any:
        if file.exists():
            file.unlink()
            # To this very thread: another one that took it would leave this one a moment to go on.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        return original(*given, **named)

    setattr(Store, write, late)


if __name__ == "__main__":
    freeze_before(sys.argv[1], Path(sys.argv[2]))
    main(["serve"])
