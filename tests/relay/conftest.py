"""For tests of the relay that look at all that was logged."""

import logging
import re
from collections.abc import Iterator

import pytest

TOLD = re.compile(r"mrt_[a-z2-7]{12}_[A-Za-z0-9_-]{20}|tell-nobody")
"""A token, and what tests put into the bodies of calls."""


class _Everything(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def no_secret_in_logs() -> Iterator[None]:
    """Whatever happens in the test: no token and nothing of a call is in a log, on any level."""
    root, kept = logging.getLogger(), _Everything()
    level = root.level
    root.addHandler(kept)
    root.setLevel(logging.DEBUG)
    yield
    root.removeHandler(kept)
    root.setLevel(level)
    for record in kept.records:
        written = f"{record.getMessage()} {vars(record)} {logging.Formatter().format(record)}"
        assert not TOLD.search(written), written
