"""What can be wrong with Redis, for whoever has to tell a client or an operator."""

import re
from collections.abc import Iterator

from mooring.errors import Unavailable, UserError
from mooring.replicas.address import StoreAddress

__all__ = ["NO_DATABASE", "NO_SENTINEL", "UNUSABLE_HINT", "StoreUnavailable", "unusable"]

UNUSABLE_HINT = "see that it runs there, and that the address for --sessions is right"
NO_SENTINEL = re.compile("unknown command .SENTINEL")
NO_CLUSTER = re.compile("cluster support disabled|Cluster mode is not enabled")
NO_PASSWORD = re.compile("HELLO must be called with|NOAUTH|Authentication required")
NO_DATABASE = re.compile("DB index is out of range|invalid DB index")


class StoreUnavailable(Unavailable):
    """Redis does not do what it should, now. What needs it can be tried again."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the sessions cannot be reached in Redis: {why}",
            code="sessions_unreachable",
            hint="it goes on by itself when Redis answers again",
            retry_after_s=2,
        )
        self.why = why


def unusable(
    error: StoreUnavailable | UserError, address: StoreAddress, *, has_password: bool, otherwise: str
) -> UserError:
    """For whoever gave the address: nothing could be begun.

    With the code `sessions_unreachable` it may be a matter of time, and `otherwise` is what to look at then.
    """
    said = "\n".join(map(str, _chain(error)))
    if (refusal := _refusal(said, address, has_password=has_password)) is not None:
        return refusal
    if isinstance(error, UserError):
        return error
    tls = "it may not speak TLS: try redis://" if address.tls else "with TLS: rediss://"
    return UserError(
        f"Redis at {address.shown} cannot be used: {error.why}", code=error.code, hint=f"{otherwise}; {tls}"
    )


def _refusal(said: str, address: StoreAddress, *, has_password: bool) -> UserError | None:
    """What time does not mend, in words that say what to write."""
    secure = "rediss" if address.tls else "redis"
    if address.kind == "sentinel" and NO_SENTINEL.search(said):
        return _refused(
            f"what answers at {address.shown} is no sentinel",
            f"name the sentinels, mostly at port 26379; one server alone: --sessions {secure}://HOST:PORT",
        )
    if address.kind == "cluster" and NO_CLUSTER.search(said):
        return _refused(f"Redis at {address.shown} is no cluster", f"write --sessions {secure}://HOST:PORT")
    if not has_password and NO_PASSWORD.search(said):
        return _refused(
            "Redis wants a password",
            "say where it is: --sessions-password file:PATH, env:NAME, secret:NAME or keyring:NAME",
        )
    if NO_DATABASE.search(said):
        return _refused(
            f"Redis has no database {address.database}",
            "the number at the end of the address for --sessions is too high: most have 0 to 15",
        )
    return None


def _refused(message: str, hint: str) -> UserError:
    return UserError(message, code="sessions_refused", hint=hint)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """It, and what it came from: clients tell of it in words of their own."""
    seen: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in seen:
        seen.append(each)
        yield each
        each = each.__cause__ or each.__context__
