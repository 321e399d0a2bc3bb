"""Does every write there is to a store, and dies or freezes before the n-th statement, as it is told.

    python store_writer.py DIRECTORY kill|freeze N

Prints "claimed" when it has the store and begins. After a freeze it goes on, and prints what became of
each write.
"""

import os
import signal
import sys
import time
from pathlib import Path

from mooring.store.database import StoreError
from mooring.store.records import Desired, Era, Session
from mooring.store.store import Store


def main() -> None:
    directory, what, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    signal_number = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}[what]
    store = Store(directory, time.time)
    store.claim(os.getpid(), "boot")
    statements = 0

    def count(_statement: str) -> None:
        nonlocal statements
        statements += 1
        if statements == number and what == "kill":
            os.kill(os.getpid(), signal_number)

    store._connection.set_trace_callback(count)
    print("claimed", flush=True)
    for at, write in enumerate(writes(store), 1):
        if at == number and what == "freeze":
            os.kill(os.getpid(), signal_number)
        try:
            write()
            print("written", flush=True)
        except StoreError as error:
            print(error.code, flush=True)
    print("statements", statements, flush=True)


def writes(store: Store):  # type: ignore[no-untyped-def]
    """Each kind once, on the workload `old`, which is there."""
    generation = store.workload("old").generation  # type: ignore[union-attr]
    session = Session("late", "old", "local", "streamable-http", "", b"{}", 1.0, time.time())
    yield lambda: store.add("another", b"{}")
    yield lambda: store.tell("old", generation, "exited", "late")
    yield lambda: store.tell("", 0, "daemon_ended", "late")
    yield lambda: store.keep_sessions("old", generation, [session], ["early"])
    yield lambda: store.keep_era("old", generation, Era("command", "late", b""))
    yield lambda: store.want("old", generation, Desired.STOPPED)
    yield lambda: store.adopt("old", generation, "/late.toml")
    yield lambda: store.begin("old", after=generation, definition=b"late")
    yield lambda: store.remove("old", store.workload("old").generation)  # type: ignore[union-attr]
    yield store.release


if __name__ == "__main__":
    main()
