"""What is to run in a cluster: plain values, checked by whoever read them. No field holds a secret."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mooring.kubernetes.quantities import Amount

__all__ = ["PORT", "Entrance", "Exit", "Release", "SecretKey", "SharedSessions", "is_fixed", "object_name"]

PORT = 4670
"""Where the pods and the Service listen."""


class SecretKey(NamedTuple):
    """Where in the cluster a value is: a key of a Secret."""

    secret: str
    key: str


class Entrance(NamedTuple):
    """Who may connect, beside the replicas themselves. Neither: every pod of the namespace."""

    labels: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Pods of the same namespace that have all labels of one of these."""
    namespaces: tuple[str, ...] = ()
    """All pods of these."""


NAMESPACE = Entrance()
CPU = Amount("100m")
"""Without a limit: one only slows down what others do not need."""
MEMORY = Amount("256Mi", "2Gi")


class Exit(NamedTuple):
    """What the pods may connect to, beside DNS, Redis and each other."""

    network: str = ""
    """`10.0.0.0/8`; empty: anywhere."""
    port: int | None = None
    """None: any."""
    without: tuple[str, ...] = ()
    """Parts of the network that are left out."""


@dataclass(frozen=True, kw_only=True)
class SharedSessions:
    """Sessions that all replicas know, kept in Redis."""

    url: str
    ports: tuple[int, ...]
    """That Redis is reached at: those in the URL, and those that it leads to."""
    password: SecretKey | None = None
    ca: SecretKey | None = None
    """The authority of its certificate; None: those that the image trusts."""
    replica_key: SecretKey | None = None
    """With which replicas know each other; None: whoever can connect is let in, too."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """One server, and all that Kubernetes is to be told of it."""

    name: str
    """Of the server, as its clients see it."""
    image: str
    settings: tuple[str, ...] = ()
    """Words for `mooring run` that say how the server is run: its policies, `--url` and the like."""
    command: tuple[str, ...] = ()
    """What comes after `--`; empty with `--url`."""
    takes_variables: bool = True
    """A server elsewhere takes none."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """For the server; none of them is secret."""
    secret_files: Mapping[str, SecretKey] = field(default_factory=dict)
    """By the name of the file, in the folder of the server's secrets."""
    replicas: int | None = None
    """None: somebody else says how many, an autoscaler."""
    sessions: SharedSessions | None = None
    """None: in the memory of the one replica there is."""
    tokens: SecretKey | None = None
    """Who may call; None: everybody who can connect."""
    hosts: tuple[str, ...] = ()
    """Names that it is reached by from outside."""
    origins: tuple[str, ...] = ()
    entrance: Entrance = NAMESPACE
    exits: tuple[Exit, ...] = ()
    drain_delay: str = "5s"
    drain_timeout: str = "20s"
    grace_period_s: int = 27
    """From SIGTERM to SIGKILL."""
    namespace: str | None = None
    """None: the one in which the manifests are applied."""
    pull_secrets: tuple[str, ...] = ()
    uid: int = 10001
    cpu: Amount = CPU
    memory: Amount = MEMORY
    scratch: str = "2Gi"
    """What the pod may write: caches below HOME, and as much again in /tmp."""
    ipv6: bool = False
    """Are the pods' addresses of that family?"""


def object_name(name: str) -> str:
    """What the objects of a server are called. The name of a Service has to begin with a letter."""
    return name if name[0].isalpha() else f"mcp-{name}"


def is_fixed(image: str) -> bool:
    """Is it said which image is meant? `latest`, or no tag, is whichever there is when a pod starts."""
    _, _, tag = image.rpartition("/")[2].partition(":")
    return "@" in image or tag not in ("", "latest")
