"""One of several whose sessions are in its memory alone says so, once."""

import pytest

from mooring.host.alone import Alone
from mooring.workloads.happenings import Happening, Kind

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
LOST = Happening(Kind.SESSION_LOST, "a client came with a session that has ended")


@pytest.mark.parametrize(
    ("host", "environment", "shares", "told"),
    [
        ("time-1", POD, False, "time-1 is one of at least 2 pods"),
        ("mcp-3d-12", POD, False, "mcp-3d-12 is one of at least 13 pods"),
        ("time-0", POD, False, ""),
        ("time-6d5f7c9b8-24567", POD, False, ""),
        ("time", POD, False, ""),
        ("time-1", POD, True, ""),
        ("time-1", {}, False, ""),
    ],
)
def test_what_a_name_says(
    host: str, environment: dict[str, str], shares: bool, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    Alone(host, environment, shares=shares).begin()
    assert len(caplog.records) == bool(told)
    assert told in caplog.text


@pytest.mark.parametrize(("environment", "shares"), [(POD, True), ({}, False)])
def test_sessions_that_are_not_known_say_nothing_elsewhere(
    environment: dict[str, str], shares: bool, caplog: pytest.LogCaptureFixture
) -> None:
    Alone("time-0", environment, shares=shares).on_happening(LOST)
    assert not caplog.records


def test_what_else_happens_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    alone = Alone("time-0", POD, shares=False)
    alone.on_happening(Happening(Kind.READY, "it works"))
    assert not caplog.records
