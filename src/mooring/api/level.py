"""Which API this is; for the client of the CLI too, which loads nothing else."""

__all__ = ["API_LEVEL", "LASTING_PREFIX", "NEWER_DAEMON", "PREFIX"]

API_LEVEL = 1
"""Raised when something that was there is gone or means something else; new members do not."""
PREFIX = f"/api/v{API_LEVEL}"
LASTING_PREFIX = "/api/v1"
"""Here `/daemon`, `/daemon/stop` and `/daemon/handover` stay, whatever the level: any Mooring can end any
other, or ask it to hand over."""
NEWER_DAEMON = "mooring daemon stop ends this daemon; the next command starts one of its own version"
