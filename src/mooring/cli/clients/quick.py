"""The one question that every `mooring run` asks: whoever has told no client of anything pays for no more."""

import os

from mooring.host.places import find_places

__all__ = ["has_told_clients"]


def has_told_clients() -> bool:
    """Is there any client that may have to be told of a server?"""
    return find_places(os.environ).client_ledger.exists()
