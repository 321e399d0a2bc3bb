"""Redis as people run it: with TLS and a password, watched by sentinels, as a cluster. All real.

They are started without a loop, so that one may serve many tests; a test that breaks something has its own.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
import trustme

from mooring.replicas.address import parse_store_address
from mooring.replicas.redis_client import RedisClient, open_client
from tests.replicas.stores import binary_of
from tests.support import PATIENCE_S, START_S, free_port

__all__ = ["ALL_PLACES", "Cluster", "Login", "Node", "Place", "Sentinels", "running_place"]

PASSWORD = "sesame-of-the-tests"
PRIMARY = "fleet"
"""Its name among the sentinels."""
DOWN_MS = 1000
"""After so long without an answer a server counts as gone."""
SLOTS = 16384
SENTINEL_CONF = """\
port {plain}
{tls}
dir {folder}
sentinel monitor {name} 127.0.0.1 {primary} 2
sentinel down-after-milliseconds {name} {down_ms}
sentinel failover-timeout {name} 3000
sentinel auth-pass {name} {password}
{own}
"""


class Login:
    """What one needs to be let in: a password always, an authority if there is TLS."""

    def __init__(self, folder: Path, *, tls: bool) -> None:
        folder.mkdir(parents=True)
        self.password_file = folder / "password"
        self.password_file.touch(0o600)
        self.password_file.write_text(PASSWORD + "\n")
        self.ca: Path | None = folder / "ca.pem" if tls else None
        self._certificate = folder / "server.pem"
        self._folder = folder
        if self.ca is not None:
            self._certify(self.ca)

    def _certify(self, ca: Path) -> None:
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        issued = authority.issue_cert("127.0.0.1", "localhost", key_type=trustme.KeyType.ECDSA)
        authority.cert_pem.write_to_path(ca)
        self._certificate.touch(0o600)
        issued.private_key_and_cert_chain_pem.write_to_path(self._certificate)

    def listening(self, port: int) -> dict[str, str]:
        """As a server is told."""
        if self.ca is None:
            return {"port": str(port)}
        return {
            "port": "0",
            "tls-port": str(port),
            "tls-cert-file": str(self._certificate),
            "tls-key-file": str(self._certificate),
            "tls-ca-cert-file": str(self.ca),
            "tls-auth-clients": "no",
            "tls-replication": "yes",
            "tls-cluster": "yes",
        }

    def asking(self) -> dict[str, Any]:
        """As redis-py is told."""
        return {"ssl": True, "ssl_ca_certs": str(self.ca)} if self.ca is not None else {}


class Node:
    """One process; `start` again with what it has written down."""

    def __init__(self, kind: str, folder: Path, login: Login, settings: dict[str, str]) -> None:
        self.port = free_port()
        self.folder = folder
        self.login = login
        self.password: str | None = PASSWORD
        self._binary = binary_of(kind)
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)

    def words(self) -> list[str]:
        settings = {
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes",
            "requirepass": PASSWORD,
            "masterauth": PASSWORD,
            "repl-diskless-sync-delay": "0",
            **self.login.listening(self.port),
            **self._settings,
        }
        return [word for name, value in settings.items() for word in (f"--{name}", value)]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen([self._binary, *self.words()], stdout=log, stderr=log)
        waited(self._answers, lambda: (self.folder / "log").read_text()[-2000:], START_S)

    def _answers(self) -> bool:
        with contextlib.suppress(redis.RedisError):
            return bool(self.ask("PING"))
        return False

    def ask(self, *words: str | int) -> Any:
        """One command, on a connection of its own."""
        client: Any = redis.Redis(
            port=self.port,
            host="127.0.0.1",
            password=self.password,
            socket_timeout=2,
            decode_responses=True,
            **self.login.asking(),
        )
        try:
            return client.execute_command(*words)
        finally:
            client.close()

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def stop(self) -> None:
        """It does not answer any more; its connections stay."""
        os.kill(self.pid, signal.SIGSTOP)


class Place:
    """One server, or several that belong together."""

    def __init__(self, kind: str, folder: Path, *, tls: bool) -> None:
        self._kind = kind
        self._folder = folder
        self.login = Login(folder / "login", tls=tls)
        self.nodes: list[Node] = []

    def _node(self, **settings: str) -> Node:
        names = {name.replace("_", "-"): value for name, value in settings.items()}
        node = Node(self._kind, self._folder / str(len(self.nodes)), self.login, names)
        self.nodes.append(node)
        return node

    def begin(self) -> None:
        self._node().start()

    @property
    def scheme(self) -> str:
        return "rediss" if self.login.ca is not None else "redis"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.nodes[0].port}/0"

    @property
    def options(self) -> tuple[str, ...]:
        """Of a command that is let in, beside `--sessions`."""
        authority = ("--sessions-ca", str(self.login.ca)) if self.login.ca is not None else ()
        return ("--sessions-password", f"file:{self.login.password_file}", *authority)

    def client(self, wait_s: float) -> RedisClient:
        return open_client(parse_store_address(self.url), PASSWORD, self.login.ca, wait_s)

    def primaries(self) -> list[Node]:
        """Those that take what is written, as they say themselves."""
        return [node for node in self.nodes if self._is_primary(node)]

    def _is_primary(self, node: Node) -> bool:
        with contextlib.suppress(redis.RedisError):
            return bool(node.ask("ROLE")[0] == "master")
        return False

    def empty(self) -> None:
        for node in self.primaries():
            node.ask("FLUSHALL")

    def end(self) -> None:
        for node in self.nodes:
            node.kill()


class Sentinels(Place):
    """A primary, two that follow it, and three that watch them; these have a password only if `guarded`."""

    def __init__(self, kind: str, folder: Path, *, tls: bool = False, guarded: bool = False) -> None:
        super().__init__(kind, folder, tls=tls)
        self.watchers: list[Watcher] = []
        self._guarded = guarded

    def begin(self) -> None:
        primary = self._node()
        primary.start()
        for _ in range(2):
            self._node(replicaof=f"127.0.0.1 {primary.port}").start()
        waited(lambda: self._following(primary) == 2)
        for n in range(3):
            watcher = Watcher(self._kind, self._folder / f"sentinel-{n}", self.login, {})
            self.watchers.append(watcher)
            watcher.watch(primary, guarded=self._guarded)
        for watcher in self.watchers:
            waited(lambda watcher=watcher: watcher.sees() == (2, 2))  # type: ignore[misc]

    def _following(self, primary: Node) -> int:
        return sum(1 for line in primary.ask("ROLE")[2])

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{watcher.port}" for watcher in self.watchers)
        return f"{self.scheme}+sentinel://{hosts}/{PRIMARY}/0"

    def empty(self) -> None:
        [primary] = self.primaries()
        primary.ask("FLUSHALL")

    def end(self) -> None:
        for watcher in self.watchers:
            watcher.kill()
        super().end()


class Watcher(Node):
    """A sentinel."""

    def watch(self, primary: Node, *, guarded: bool) -> None:
        self.password = PASSWORD if guarded else None
        listening = self.login.listening(self.port)
        lines = [f"{name} {value}" for name, value in listening.items() if name.startswith("tls-")]
        text = SENTINEL_CONF.format(
            plain=listening["port"],
            tls="\n".join(line for line in lines if not line.startswith("tls-cluster")),
            folder=self.folder,
            name=PRIMARY,
            primary=primary.port,
            down_ms=DOWN_MS,
            password=PASSWORD,
            own=f"requirepass {PASSWORD}\nsentinel sentinel-pass {PASSWORD}" if guarded else "",
        )
        (self.folder / "sentinel.conf").write_text(text)
        self.start()

    def words(self) -> list[str]:
        return [str(self.folder / "sentinel.conf"), "--sentinel"]

    def sees(self) -> tuple[int, int]:
        """How many follow the primary, and how many others watch it."""
        state = self.ask("SENTINEL MASTER", PRIMARY)
        return int(state["num-slaves"]), int(state["num-other-sentinels"])


class Cluster(Place):
    """Three that share the slots, and one that follows the first."""

    def __init__(self, kind: str, folder: Path, *, tls: bool = False) -> None:
        super().__init__(kind, folder, tls=tls)

    def begin(self) -> None:
        for _ in range(4):
            self._node(cluster_enabled="yes", cluster_node_timeout=str(DOWN_MS)).start()
        *primaries, follower = self.nodes
        bounds = [SLOTS * n // 3 for n in range(4)]
        for n, node in enumerate(primaries):
            node.ask("CLUSTER", "ADDSLOTSRANGE", bounds[n], bounds[n + 1] - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        first = self.nodes[0].ask("CLUSTER", "MYID")
        waited(lambda: all(len(known(node)) == 4 for node in self.nodes))
        follower.ask("CLUSTER", "REPLICATE", first)
        waited(self._is_whole)

    def _is_whole(self) -> bool:
        """Everybody knows who has which slots, and who follows whom."""
        for node in self.nodes:
            if "cluster_state:ok" not in as_text(node.ask("CLUSTER", "INFO")):
                return False
            if sum("slave" in line for line in known(node)) != 1:
                return False
        return len(self.nodes[0].ask("ROLE")[2]) == 1

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:3])
        return f"{self.scheme}+cluster://{hosts}"


def known(node: Node) -> list[str]:
    """A line for each node that it knows."""
    found = node.ask("CLUSTER", "NODES")
    if isinstance(found, dict):
        return [f"{name} {about['flags']}" for name, about in found.items()]
    return as_text(found).splitlines()


def as_text(said: Any) -> str:
    return "\n".join(f"{name}:{value}" for name, value in said.items()) if isinstance(said, dict) else said


def waited(holds: Callable[[], bool], told: Callable[[], str] = str, span_s: float = PATIENCE_S) -> None:
    """Until it holds."""
    deadline = time.monotonic() + span_s
    while not holds():
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)


PLACES: dict[str, Callable[[str, Path], Place]] = {
    "plain": lambda kind, folder: Place(kind, folder, tls=False),
    "tls": lambda kind, folder: Place(kind, folder, tls=True),
    "sentinel": Sentinels,
    "sentinel-tls": lambda kind, folder: Sentinels(kind, folder, tls=True, guarded=True),
    "cluster": Cluster,
    "cluster-tls": lambda kind, folder: Cluster(kind, folder, tls=True),
}
ALL_PLACES: Sequence[tuple[str, str]] = [
    ("redis", "plain"),
    ("redis", "tls"),
    ("redis", "sentinel"),
    ("redis", "sentinel-tls"),
    ("redis", "cluster"),
    ("redis", "cluster-tls"),
    # The Valkey that tests have was built without TLS.
    ("valkey", "plain"),
    ("valkey", "sentinel"),
    ("valkey", "cluster"),
]


@contextmanager
def running_place(kind: str, how: str, folder: Path) -> Iterator[Place]:
    place = PLACES[how](kind, folder)
    try:
        place.begin()
        yield place
    finally:
        place.end()
