"""Who may hear what, where an instance has more than one client. Pure."""

from collections.abc import Collection

from tests.faults.hell.facts import Call, Json

__all__ = ["ACKNOWLEDGED", "LISTS", "is_for_call", "is_for_guest", "is_for_listener"]

LISTS = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
LOG, PROGRESS, UPDATED = "notifications/message", "notifications/progress", "notifications/resources/updated"
LEVELS = ("debug", "info", "error", "emergency")
"""Those that are used here."""


def is_for_guest(
    method: str, params: Json, levels: Collection[str], uris: Collection[str], *, strict: bool
) -> bool:
    """For a session on a shared instance, which has asked for these levels and resources.

    `strict`: the server is told one level for all, so that not everybody wants to hear all that it logs.
    """
    if method == LOG:
        return any(not strict or _is_as_grave(params, level) for level in levels)
    if method == UPDATED:
        return params["uri"] in uris
    return method in LISTS or method == PROGRESS


def is_for_call(call: Call, method: str, params: Json, *, strict: bool) -> bool:
    """For a request without a session; otherwise as above."""
    if method == LOG:
        return bool(call.level) and (not strict or _is_as_grave(params, call.level))
    return method == PROGRESS


def is_for_listener(call: Call, method: str, params: Json) -> bool:
    """For a request that listens; its first message is the acknowledgement."""
    wanted = call.wanted or {}
    if method == UPDATED:
        return params["uri"] in wanted["resourceSubscriptions"]
    if method in LISTS:
        return f"{method.split('/')[1]}ListChanged" in wanted
    return method == ACKNOWLEDGED


def _is_as_grave(params: Json, least: str) -> bool:
    return LEVELS.index(params["level"]) >= LEVELS.index(least)
