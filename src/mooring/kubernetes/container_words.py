"""The command line of the container: the same in every replica. Pure.

Kubernetes puts variables of the container into `$(NAME)`. What a pod alone knows (its address, its namespace)
is written so; a dollar sign of anybody else's is doubled, which Kubernetes takes for one.
"""

from mooring.kubernetes.release import PORT, Release, object_name

__all__ = [
    "CA_FILE",
    "PASSWORD_FILE",
    "REDIS_FOLDER",
    "REPLICA_KEY_FILE",
    "SECRETS_FOLDER",
    "TOKENS_FILE",
    "TOKENS_FOLDER",
    "VARIABLES_FILE",
    "VARIABLES_FOLDER",
    "container_words",
    "literally",
]

VARIABLES_FOLDER, VARIABLES_FILE = "/etc/mooring", "server.env"
TOKENS_FOLDER, TOKENS_FILE, REPLICA_KEY_FILE = "/run/secrets/mooring", "tokens", "replica-key"
REDIS_FOLDER, PASSWORD_FILE, CA_FILE = "/run/secrets/redis", "password", "ca.crt"
SECRETS_FOLDER = "/run/secrets/server"
CLUSTER_DOMAIN = "cluster.local"
"""Of nearly every cluster; another is given as a host of the release."""


def literally(word: str) -> str:
    """A word in which Kubernetes puts nothing."""
    return word.replace("$", "$$")


def container_words(release: Release) -> list[str]:
    """All after `mooring`."""
    return [
        "run",
        "--foreground",
        release.name,
        *_sessions(release),
        *_listening(release),
        *("--drain-delay", release.drain_delay),
        *("--drain-timeout", release.drain_timeout),
        *(("--env-file", f"{VARIABLES_FOLDER}/{VARIABLES_FILE}") if release.takes_variables else ()),
        *map(literally, release.settings),
        *(("--", *map(literally, release.command)) if release.command else ()),
    ]


def _sessions(release: Release) -> list[str]:
    if (sessions := release.sessions) is None:
        return []
    words = ["--sessions", literally(sessions.url)]
    if sessions.password is not None:
        words += ["--sessions-password", f"file:{REDIS_FOLDER}/{PASSWORD_FILE}"]
    if sessions.ca is not None:
        words += ["--sessions-ca", f"{REDIS_FOLDER}/{CA_FILE}"]
    if sessions.replica_key is not None:
        words += ["--replica-key", f"file:{TOKENS_FOLDER}/{REPLICA_KEY_FILE}"]
    # Servers of the same name in other namespaces may use the same Redis.
    words += ["--sessions-prefix", "mooring:$(POD_NAMESPACE)"]
    address = "[$(POD_IP)]" if release.ipv6 else "$(POD_IP)"
    return [*words, "--advertise", f"http://{address}:{PORT}"]


def _listening(release: Release) -> list[str]:
    words = ["--host", "::" if release.ipv6 else "0.0.0.0", "--port", str(PORT), "--allow-remote"]  # noqa: S104
    if release.tokens is None:
        words.append("--no-auth")
    else:
        words += ["--token-file", f"{TOKENS_FOLDER}/{TOKENS_FILE}"]
    for host in (*_names_of_service(release), *map(literally, release.hosts)):
        words += ["--allow-host", host]
    for origin in map(literally, release.origins):
        words += ["--allow-origin", origin]
    return words


def _names_of_service(release: Release) -> list[str]:
    name = object_name(release.name)
    within = f"{name}.$(POD_NAMESPACE)"
    return [name, within, f"{within}.svc", f"{within}.svc.{CLUSTER_DOMAIN}"]
