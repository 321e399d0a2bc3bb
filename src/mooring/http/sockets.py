"""Listening sockets, made or refused in plain words.

Whatever fails, whenever it is cancelled: either every socket asked for is returned,
listening, or none is left open.
"""

import array
import asyncio
import contextlib
import errno
import os
import socket
import stat
import struct
import sys
from pathlib import Path

from mooring.errors import ListenFailed
from mooring.http.port_owner import port_owner

__all__ = ["inode_of", "let_nobody_in", "listen_tcp", "listen_unix", "unlink_own"]

Address = tuple[int, str, int]
"""Family, address, scope."""

SAME_PORT_ATTEMPTS = 16
UNIX_PATH_BYTES = 107 if sys.platform == "linux" else 103
# A peer that vanished without a word is noticed after 30 + 3 × 5 s.
KEEP_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


async def listen_tcp(host: str, port: int, backlog: int) -> list[socket.socket]:
    """One listening socket for each address of `host`, all on one port; port 0 chooses a free one."""
    addresses = await _resolve(host, port)
    for attempt in range(SAME_PORT_ATTEMPTS):
        try:
            return _bind_all(addresses, host, port, backlog)
        except ListenFailed as error:
            # A port that was free at the first address may be taken at the second: choose another.
            if port or error.code != "port_taken" or attempt + 1 == SAME_PORT_ATTEMPTS:
                raise
    raise AssertionError("unreachable")  # pragma: no cover


async def _resolve(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        try:
            # Numbers need no name server, hence no thread that waits for one; nor, as bytes, the tables
            # of characters in names, which take half a megabyte.
            number = host.encode("ascii", "replace") or None
            found = socket.getaddrinfo(
                number, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST
            )
        except socket.gaierror:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ListenFailed(
            f"{host!r} cannot be listened on: {reason}",
            code="unknown_host",
            hint="give an address of this machine, such as 127.0.0.1, with --host",
        ) from error
    addresses = [(family, str(to[0]), to[3] if len(to) == 4 else 0) for family, _, _, _, to in found]
    return list(dict.fromkeys(addresses))


def _bind_all(addresses: list[Address], host: str, port: int, backlog: int) -> list[socket.socket]:
    bound: list[socket.socket] = []
    missing: ListenFailed | None = None
    try:
        for address in addresses:
            try:
                bound.append(_bind(address, port, backlog))
            except OSError as error:
                failure = _listen_failed(error, address[1], port)
                if failure.code != "address_not_available":
                    raise failure from error
                # A name like localhost has an IPv6 address even where IPv6 is switched off.
                missing = failure
                continue
            port = bound[-1].getsockname()[1]
        if not bound:
            raise missing or ListenFailed(f"{host!r} has no address", code="unknown_host")
    except BaseException:
        for sock in bound:
            sock.close()
        raise
    return bound


def _bind(address: Address, port: int, backlog: int) -> socket.socket:
    family, name, scope = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # A restart must not wait for the last run's connections to time out. SO_REUSEPORT never:
        # two daemons would share a port without noticing.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # These two are inherited by accepted sockets. An event must not wait for the last one's ACK.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEP_ALIVE:
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((name, port, 0, scope))
        else:
            sock.bind((name, port))
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def _listen_failed(error: OSError, name: str, port: int) -> ListenFailed:
    where = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    if error.errno == errno.EADDRINUSE:
        owner = port_owner(port) if port else ""
        return ListenFailed(
            f"{where} is already in use" + (f" by {owner}" if owner else ""),
            code="port_taken",
            hint="stop that program, or choose another port with --port (0 chooses a free one)",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return ListenFailed(
            f"no permission to listen on {where}",
            code="permission_denied",
            hint="choose a port of 1024 or more with --port",
        )
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return ListenFailed(
            f"{name} is not an address of this machine",
            code="address_not_available",
            hint="choose one that `ip address` lists, or 0.0.0.0 for all, with --host",
        )
    return ListenFailed(f"{where} cannot be listened on: {error.strerror or error}", code="listen_failed")


def listen_unix(path: Path, backlog: int) -> socket.socket:
    """A listening unix socket that only its owner can connect to.

    A socket file is replaced only when nobody listens on it: it was left by a process that was killed.
    """
    if len(os.fsencode(path)) > UNIX_PATH_BYTES:
        raise ListenFailed(
            f"the socket path {path} is longer than {UNIX_PATH_BYTES} bytes",
            code="path_too_long",
            hint="choose a shorter path",
        )
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        try:
            sock.bind(str(path))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            _remove_stale(path)
            sock.bind(str(path))
        # Nobody can connect before listen(), so there is no moment at which others could.
        path.chmod(0o600)
        sock.listen(backlog)
    except OSError as error:
        sock.close()
        raise ListenFailed(
            f"{path} cannot be listened on: {error.strerror or error}",
            code="permission_denied" if isinstance(error, PermissionError) else "listen_failed",
            hint="choose a path in a directory that exists and is yours",
        ) from error
    except BaseException:
        sock.close()
        raise
    return sock


def _remove_stale(path: Path) -> None:
    before = path.lstat()
    if not stat.S_ISSOCK(before.st_mode):
        raise ListenFailed(
            f"{path} exists and is not a socket", code="not_a_socket", hint="choose another path"
        )
    if _somebody_listens(path):
        raise ListenFailed(
            f"another process listens on {path}",
            code="socket_taken",
            hint="stop that process, or choose another path",
        )
    # Whoever was as fast as we are has put another file there.
    if path.lstat().st_ino == before.st_ino:
        path.unlink()


def _somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        # Everything but a refusal (a full backlog, no permission) means that there may be somebody.
        return probe.connect_ex(str(path)) != errno.ECONNREFUSED


def inode_of(path: Path) -> int:
    """Tells our socket file from one that another process has put in its place."""
    return path.lstat().st_ino


def unlink_own(path: Path, inode: int) -> None:
    """Remove the socket file, unless another process has put its own there since."""
    with contextlib.suppress(FileNotFoundError):
        if inode_of(path) == inode:
            path.unlink()


# Classic BPF, on a packet that begins with its TCP header: drop it if SYN is set, let it pass otherwise.
_NO_SYN = (
    (0x30, 0, 0, 13),  # load the byte of the flags
    (0x45, 0, 1, 0x02),  # is SYN set?
    (0x06, 0, 0, 0),  # yes: keep nothing of it
    (0x06, 0, 0, 0xFFFFFFFF),  # no: keep all
)
_SO_ATTACH_FILTER = 26


def let_nobody_in(sock: socket.socket) -> None:
    """From now on the kernel begins no new connection for a listening socket; those begun are finished.

    Between the last `accept` and the close, a peer could otherwise get a connection that is then reset:
    it believes that its request was taken. Its SYN unanswered, it tries again a second later and is
    refused, which no client takes for more than it is. Linux only; elsewhere the gap stays.
    """
    if sys.platform != "linux" or sock.family == socket.AF_UNIX:
        return
    program = array.array("B", b"".join(struct.pack("=HBBI", *step) for step in _NO_SYN))
    address, _ = program.buffer_info()
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(_NO_SYN), address))
