"""Whoever would be cut off while it ends says so when it begins."""

import pytest

from tests.hosting import hosting


@pytest.mark.parametrize(
    ("told", "drain_s", "level"), [("5", 25.0, "WARNING"), ("27", 25.0, None), ("5", 3.0, None)]
)
async def test_a_drain_that_does_not_fit_is_told_at_the_start(
    told: str, drain_s: float, level: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOORING_GRACE_PERIOD", told)
    async with hosting(drain_timeout_s=drain_s) as host:
        said = host.events("short_grace")
        before = host.records[: host.records.index(host.events("listening")[0])]
        assert [record.levelname for record in said] == ([level] if level else [])
        assert all(record in before for record in said)
        assert all("cut off after 5 s" in record.getMessage() for record in said)
