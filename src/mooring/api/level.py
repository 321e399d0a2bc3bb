"""Which API this is; for the client of the CLI too, which loads nothing else."""

__all__ = ["API_LEVEL", "PREFIX"]

API_LEVEL = 1
"""Raised when something that was there is gone or means something else; new members do not."""
PREFIX = f"/api/v{API_LEVEL}"
