"""Install what is missing: `python -m tests.parts`. A no-op when everything is there."""

import fcntl
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.parts import PARTS, Part, wanted


def _say(text: str) -> None:
    print(f"parts: {text}", flush=True)


def _install(part: Part) -> bool:
    _say(f"{part.name}: installing …")
    began = time.monotonic()
    try:
        part.renew()
    except Exception as error:
        _say(f"{part.name}: cannot be had ({part.hint})\n{error}")
        return False
    _say(f"{part.name}: installed in {time.monotonic() - began:.0f} s")
    return True


def main() -> int:
    PARTS.mkdir(exist_ok=True)
    with (PARTS / ".lock").open("w") as lock:
        # Another run may be installing; what it installs need not be installed again.
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [part for part in wanted() if not part.installed()]
        with ThreadPoolExecutor(max_workers=3) as pool:
            failed = list(pool.map(_install, missing)).count(False)
    if not failed:
        return 0
    if os.environ.get("CI") == "true":
        _say(f"{failed} missing, and in CI none may be")
        return 1
    _say(f"{failed} missing: the tests that need them will be skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
