"""A program that opens many connections and keeps them: `idle_crowd.py PORT COUNT`.

Each asks for /livez as soon as it is there. Says, as one line of JSON, how many are open and how many
were refused with 503; and again, when all have asked once more, for every line on its input.
"""

import json
import resource
import select
import socket
import sys
import time
from collections import Counter
from contextlib import suppress

ASK = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
AT_ONCE = 20
USE_S = 15.0
"""How often they ask while nothing else happens: a connection that is idle for 75 s is closed."""
PER_ADDRESS = 5000
"""A source address has some 28,000 ports; loopback has 16 million addresses."""


def main() -> None:
    port, count = map(int, sys.argv[1:])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd: list[socket.socket] = []
    told: Counter[str] = Counter()
    asked_at = time.monotonic()
    for begin in range(0, count, AT_ONCE):
        source = f"127.0.1.{1 + begin // PER_ADDRESS}"
        arrived = [connected(port, source) for _ in range(min(AT_ONCE, count - begin))]
        answers = statuses(arrived)
        told.update(answers)
        crowd += [sock for sock, status in zip(arrived, answers, strict=True) if status == "200"]
        if time.monotonic() - asked_at > USE_S:
            crowd, asked_at = asked_again(crowd), time.monotonic()
    while True:
        print(json.dumps({"open": len(crowd), "refused": told["503"], "lost": told[""]}), flush=True)
        while not select.select([sys.stdin], [], [], USE_S)[0]:
            crowd = asked_again(crowd)
        if not sys.stdin.readline():
            return
        crowd = asked_again(crowd)


def asked_again(crowd: list[socket.socket]) -> list[socket.socket]:
    """Those that are still of use."""
    return [sock for sock, status in zip(crowd, statuses(crowd), strict=True) if status == "200"]


def connected(port: int, source: str) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((source, 0))
    sock.connect(("127.0.0.1", port))
    return sock


def statuses(crowd: list[socket.socket]) -> list[str]:
    """What each is answered; empty if it is not."""
    for sock in crowd:
        with suppress(OSError):  # refused before it could ask: the answer is there
            sock.sendall(ASK)
    return [status(sock) for sock in crowd]


def status(sock: socket.socket) -> str:
    try:
        return sock.recv(4096)[9:12].decode()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
