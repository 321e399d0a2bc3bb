"""Which engines were used, written down for a Mooring that comes after this one was killed.

One small file for each in a directory of the logbook's own: what was asked for, and where that led to. So
what was left in an engine is found although no server asks for that engine any more; and an engine that is
not there now, but was before, is one that is gone, and not one that nobody has.
"""

import contextlib
import hashlib
import logging
import os
import re
from pathlib import Path

from mooring.errors import UserError
from mooring.runtimes.containers.endpoints import Endpoint, parse_endpoint

__all__ = ["Logbook"]

log = logging.getLogger("mooring.containers")

MAX_FILE_BYTES = 8192
_NAME = re.compile("[0-9a-f]{16}")


class Logbook:
    """Of one Mooring, across its lives. Not being able to write it is a warning: it is for rare cases."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def note(self, wanted: str, endpoint: Endpoint) -> None:
        """Containers are about to be made there."""
        name = hashlib.sha256(f"{wanted}\n{endpoint.url}".encode()).hexdigest()[:16]
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            path = self._directory / name
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{wanted}\n{endpoint.url}\n")
        except OSError as error:
            text = "%s cannot be written (%s): killed, Mooring may leave containers"
            log.warning(text, self._directory, error.strerror, extra={"event": "logbook_unwritable"})

    def knows(self, wanted: str) -> bool:
        """Was there ever an engine when that was asked for?"""
        return self.last(wanted) is not None

    def last(self, wanted: str) -> Endpoint | None:
        """Where that led to the last time; None: never, or that cannot be read."""
        found = [endpoint for asked, endpoint in self._noted() if asked == wanted]
        return found[-1] if found else None

    def endpoints(self) -> list[Endpoint]:
        """Where there were engines, each once."""
        return list({endpoint.url: endpoint for _, endpoint in self._noted()}.values())

    def files(self) -> list[Path]:
        """Where that is."""
        try:
            return [
                path for path in self._directory.iterdir() if _NAME.fullmatch(path.name) and path.is_file()
            ]
        except OSError:
            return []

    def _noted(self) -> list[tuple[str, Endpoint]]:
        """What was asked for, and where that led to; the latest last."""
        found: list[tuple[int, str, Endpoint]] = []
        for path in self.files():
            with contextlib.suppress(OSError, UnicodeDecodeError, UserError), path.open() as file:
                wanted, _, rest = file.read(MAX_FILE_BYTES).partition("\n")
                if rest.endswith("\n"):  # written to its end
                    endpoint = parse_endpoint(rest.removesuffix("\n"), "the logbook")
                    found.append((path.stat().st_mtime_ns, wanted, endpoint))
        return [(wanted, endpoint) for _, wanted, endpoint in sorted(found)]
