"""Adds entries of its own to a file, one change for each.

    python adding_editor.py STATE FILE NAME COUNT

Prints how often it was told that the file is busy; then it tried again.
"""

import json
import sys
from pathlib import Path

from mooring.clients.files import Files
from mooring.errors import UserError

MOST_TRIES = 50


def main() -> None:
    state, path, name, count = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    ours, busy = Files(state), 0
    print("ready", flush=True)
    for number in range(count):

        def add(data: bytes | None, entry: str = f"{name}-{number}") -> bytes:
            document = json.loads(data or b"{}")
            document[entry] = True
            return json.dumps(document).encode()

        for _ in range(MOST_TRIES):
            try:
                ours.change(path, add)
                break
            except UserError as error:
                if error.code != "file_busy":
                    raise
                busy += 1
        else:
            sys.exit("busy for ever")
    print(busy, flush=True)


if __name__ == "__main__":
    main()
