"""Where the sessions are kept: `redis://HOST[:PORT][/DB]` and its like. Pure.

    redis://, rediss://                     one server; the second with TLS
    redis+sentinel://HOST,HOST/NAME[/DB]    whichever server is the primary NAME, as these sentinels say
    redis+cluster://HOST,HOST               a cluster, entered by any of these

A password in the address would be seen by everybody who can list processes: it is refused.
"""

from urllib.parse import unquote, urlsplit

from msgspec import Struct

from mooring.errors import UserError

__all__ = ["StoreAddress", "parse_store_address"]

SCHEMES = {
    "redis": ("single", False),
    "rediss": ("single", True),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}
PORTS = {"single": 6379, "sentinel": 26379, "cluster": 6379}
FORMS = "redis://HOST:PORT/DB, rediss://…, redis+sentinel://HOST,HOST/NAME/DB or redis+cluster://HOST,HOST"
MOST_HOSTS = 64
"""Named in an address: more are found by asking these."""


class StoreAddress(Struct, frozen=True):
    """What an address says."""

    kind: str
    """`single`, `sentinel` or `cluster`."""
    hosts: tuple[tuple[str, int], ...]
    tls: bool = False
    user: str = ""
    database: int = 0
    primary: str = ""
    """Its name among the sentinels."""

    @property
    def shown(self) -> str:
        """For people."""
        return ", ".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in self.hosts)


def parse_store_address(text: str) -> StoreAddress:
    """Raises UserError."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in SCHEMES:
        raise _wrong(text, f"it begins with none of {', '.join(SCHEMES)}", "write " + FORMS)
    kind, tls = SCHEMES[scheme.lower()]
    before, at, _ = rest.rpartition("@")
    if at and ":" in before:  # also one with a slash in it, wherever that would lead
        raise UserError(
            "the address for --sessions has a password in it, which everybody here could see",
            code="password_in_address",
            hint="take it out, and name where it is: --sessions-password file:PATH, env:NAME or secret:NAME",
        )
    if "?" in rest or "#" in rest:
        raise _wrong(text, "it has a query or a fragment", "leave out everything after the database")
    network, _, path = rest.partition("/")
    user, _, network = network.rpartition("@")
    hosts = tuple(_host(text, each, PORTS[kind]) for each in network.split(","))
    if len(hosts) > MOST_HOSTS or (kind == "single" and len(hosts) > 1):
        raise _wrong(text, f"it names {len(hosts)} hosts", "several are for +sentinel and +cluster: " + FORMS)
    primary, database = _place(text, kind, path)
    return StoreAddress(kind, hosts, tls, unquote(user), database, primary)


def _host(text: str, part: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{part}")
        host, given = parts.hostname, parts.port
    except ValueError:
        host, given = None, None
    if not host or (given is not None and given == 0):
        raise _wrong(text, f"{part!r} is no host with a port", "write " + FORMS)
    return host, given if given is not None else port


def _place(text: str, kind: str, path: str) -> tuple[str, int]:
    """The name of a primary, and the number of a database."""
    words = path.split("/") if path else []
    primary = ""
    if kind == "sentinel":
        if not words or not words[0]:
            raise _wrong(
                text, "the sentinels are not asked for a primary", "name it: redis+sentinel://HOST/NAME"
            )
        primary = unquote(words.pop(0))
    if words == [""]:
        words = []
    if not words:
        return primary, 0
    if len(words) > 1 or not words[0].isascii() or not words[0].isdigit():
        raise _wrong(text, f"{'/'.join(words)!r} is no number of a database", "write " + FORMS)
    if kind == "cluster" and int(words[0]):
        raise _wrong(text, "a cluster has one database only", "leave out its number")
    return primary, int(words[0])


def _wrong(text: str, why: str, hint: str) -> UserError:
    shown = text if "@" not in text else text.rpartition("@")[2]
    return UserError(f"--sessions {shown[:100]}: {why}", code="bad_sessions_address", hint=hint)
