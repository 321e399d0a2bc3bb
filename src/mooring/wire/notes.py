"""Notifications that some revision defines. Each is placed by what it means; any other is an extension's own,
and passes wherever it can concern nobody else.
"""

__all__ = ["is_extension"]

_DEFINED = frozenset(
    f"notifications/{name}"
    for name in (
        "cancelled",
        "elicitation/complete",
        "initialized",
        "message",
        "progress",
        "prompts/list_changed",
        "resources/list_changed",
        "resources/updated",
        "roots/list_changed",
        "subscriptions/acknowledged",
        "tasks/status",
        "tools/list_changed",
    )
)


def is_extension(method: str | None) -> bool:
    """Is it a notification that no revision knows?"""
    return method not in _DEFINED
