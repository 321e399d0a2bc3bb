"""An AI client that rewrites its own file as clients do: from memory, with what it finds of others in it.

    python rewriting_client.py FILE rename|truncate|overwrite COUNT

`rename` puts a new file in the place of the old one. `truncate` writes into the file that is there, which it
empties first; `overwrite` cuts off the end last. Both take their time in between. Before each update it looks
whether its last one is in the file, and ends with status 1 if that does not come to be the case.
"""

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 5.0


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def check_is_there(path: Path, updates: list[int]) -> None:
    """While somebody else puts an update of ours back, it is not there for a moment."""
    give_up_at = time.monotonic() + PATIENCE_S
    while read(path)["client"] != updates:
        if time.monotonic() > give_up_at:
            sys.exit(f"lost: {updates[-1]}, there is {read(path)}")
        time.sleep(0.001)


def write(path: Path, way: str, data: bytes, pause_s: float) -> None:
    if way == "rename":
        begun = path.with_name("client.tmp")
        begun.write_bytes(data)
        time.sleep(pause_s)
        begun.replace(path)
        return
    with path.open("r+b", buffering=0) as file:
        if way == "truncate":
            file.truncate(0)
        time.sleep(pause_s)
        file.write(data)
        time.sleep(pause_s)
        file.truncate()


def main() -> None:
    path, way, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    choose = random.Random(way)
    updates: list[int] = []
    print("ready", flush=True)
    for number in range(count):
        document = read(path)
        updates.append(number)
        document["client"] = updates
        write(path, way, json.dumps(document).encode(), choose.random() * 0.004)
        time.sleep(choose.random() * 0.03)
        check_is_there(path, updates)
    print("done", flush=True)


if __name__ == "__main__":
    main()
