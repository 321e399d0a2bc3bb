"""Adds to a file, and prints the number of the backup, or the code of the refusal.

    python one_change.py STATE FILE TIMES [USER]

As that user (by number), if one is given, who may not be able to read our code: so it is loaded before.
"""

import ctypes  # noqa: F401
import os
import sys
from pathlib import Path

from mooring.clients.files import Files
from mooring.errors import UserError


def main() -> None:
    state, path, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    if len(sys.argv) > 4:
        os.setgroups([])
        os.setgid(int(sys.argv[4]))
        os.setuid(int(sys.argv[4]))
    try:
        print(Files(state).change(path, lambda data: (data or b"") + b"ours " * times).backup)
    except UserError as error:
        print(error.code)


if __name__ == "__main__":
    main()
