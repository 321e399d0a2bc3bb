"""`mooring`, and `python -m mooring`: as little as possible before Ctrl-C is understood."""

import sys
from typing import NoReturn

__all__ = ["main"]

INTERRUPTED = 130  # 128 + SIGINT, as shells count


def main() -> NoReturn:
    """Run the command line, and end with its exit status."""
    try:
        from mooring.cli.main import main as run  # noqa: PLC0415 - this is what takes a moment
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
