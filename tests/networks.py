"""Networks of a test's own, made of namespaces: what enters them, and who may make them."""

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["do", "enter", "inside", "need_networks", "path_of", "skipped_if_not_allowed"]

CLONE_NEWNET = 0x40000000


def enter(path: str | Path) -> None:
    """This thread is in that network from now on, and so is what it starts."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)


@contextmanager
def inside(path: Path) -> Iterator[None]:
    """This thread is in that network for a while."""
    kept = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
    try:
        enter(path)
        try:
            yield
        finally:
            enter(f"/proc/self/fd/{kept}")
    finally:
        os.close(kept)


def path_of(name: str) -> Path:
    """Where a namespace is found."""
    return Path("/run/netns") / name


def do(*words: str) -> None:
    """One command. Raises CalledProcessError."""
    subprocess.run(words, check=True, capture_output=True, timeout=30)


def need_networks() -> None:
    """Whoever cannot make them is skipped; in CI nobody is."""
    if os.getuid() != 0:
        pytest.skip("only root may make network namespaces")
    missing = [name for name in ("ip", "iptables", "nsenter") if shutil.which(name) is None]
    if missing:
        reason = f"{missing[0]} is not on this machine (Debian: apt-get install iproute2 iptables)"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


@contextmanager
def skipped_if_not_allowed() -> Iterator[None]:
    """Containers may have a root who may not."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this system does not let us {error.cmd[0]}: {error.stderr.decode().strip()}")
