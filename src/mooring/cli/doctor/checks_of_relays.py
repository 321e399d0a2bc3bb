"""What `mooring doctor` looks at of the relays that the daemon is to be connected to."""

from collections.abc import Iterator

from mooring.cli.connect.errands import statuses, why_not
from mooring.cli.doctor.findings import Finding, Level
from mooring.host.places import Places

__all__ = ["check_relays"]


def check_relays(places: Places) -> Iterator[Finding]:
    """Which are not there. Whoever connects to none hears nothing."""
    held = [status for status in statuses(places) if status["held_by"] == "daemon"]
    lost = [status for status in held if status["state"] == "refused" or status["last_error"]]
    for status in lost:
        relay, is_over = status["relay"], status["state"] == "refused"
        remedy = "; ".join(filter(None, (status.get("hint"), f"mooring connect stop {relay} forgets it")))
        yield Finding(
            "relays",
            Level.PROBLEM if is_over else Level.NOTE,
            f"not connected to {relay}: {why_not(status)}{'' if is_over else '; it is tried again'}",
            remedy,
        )
    if held and not lost:
        yield Finding("relays", Level.OK, f"{len(held)} to be connected to, nothing is wrong")
