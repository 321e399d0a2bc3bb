"""Adds to a file, and prints the number of the backup, or the code of the refusal.

python one_change.py STATE FILE TIMES
"""

import sys
from pathlib import Path

from mooring.clients.files import Files
from mooring.errors import UserError


def main() -> None:
    state, path, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    try:
        print(Files(state).change(path, lambda data: (data or b"") + b"ours " * times).backup)
    except UserError as error:
        print(error.code)


if __name__ == "__main__":
    main()
