"""What can be wrong with Redis, for whoever has to tell a client or an operator."""

from mooring.errors import Unavailable

__all__ = ["UNUSABLE_HINT", "StoreUnavailable", "unusable"]

UNUSABLE_HINT = "see that it runs there, and that the address for --sessions is right; with TLS: rediss://"


class StoreUnavailable(Unavailable):
    """Redis does not do what it should, now. What needs it can be tried again."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the sessions cannot be reached in Redis: {why}",
            code="sessions_unreachable",
            hint="it goes on by itself when Redis answers again",
            retry_after_s=2,
        )


def unusable(where: str, error: StoreUnavailable) -> str:
    """For whoever gave the address: nothing could be begun."""
    return f"Redis at {where} cannot be used: {error.__cause__ or error.message}"
