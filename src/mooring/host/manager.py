"""Telling whoever started us (systemd, `Type=notify`) how we are, if it wants to know."""

import contextlib
import os
import socket

__all__ = ["tell_manager"]


def tell_manager(*news: str) -> None:
    """Lines such as READY=1. Whoever does not listen costs nothing: a datagram is sent or lost."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto("\n".join(news).encode(), address.replace("@", "\0", 1))
