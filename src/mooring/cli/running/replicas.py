"""`--sessions` and what belongs to it: one of several replicas."""

import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from mooring.cli.running.conflicts import as_options, conflict
from mooring.errors import UserError
from mooring.host.options import ListenOptions, ReplicaOptions
from mooring.host.places import find_places
from mooring.http.origin import parse_url
from mooring.replicas.address import StoreAddress, parse_store_address
from mooring.replicas.policy import ReplicaPolicy
from mooring.secrets.references import parse
from mooring.secrets.resolving import Resolver
from mooring.secrets.vault import Vault

__all__ = ["plan_address", "plan_replicas", "resolve_key", "resolve_reference"]

BELONGS = frozenset(
    {"sessions_password", "sessions_prefix", "sessions_ca", "advertise", "replica_key", "lease"}
)
PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
ANY_ADDRESS = frozenset({"0.0.0.0", "::", "[::]", ""})  # noqa: S104 - these are refused
LEAST_KEY = 16
"""Characters."""
LEAST_LEASE_S = 1.0
MOST_LEASE_S = 300.0


def plan_replicas(
    given: Mapping[str, Any], chosen: Collection[str], listen: ListenOptions, ours: Mapping[str, str]
) -> ReplicaOptions | None:
    """How it shares its sessions; None: not at all. Raises UserError."""
    if not given["sessions"]:
        if lost := sorted(BELONGS & set(chosen)):
            raise conflict(
                f"{as_options(lost)}: works only with --sessions", "add --sessions redis://HOST:PORT"
            )
        return None
    address = plan_address(given)
    if not LEAST_LEASE_S <= given["lease"] <= MOST_LEASE_S:
        raise conflict(
            f"--lease may be {LEAST_LEASE_S:g} s to {MOST_LEASE_S:g} s", "10 s suits most networks"
        )
    key = resolve_key(given["replica_key"], ours)
    return ReplicaOptions(
        store=address,
        advertise=_advertised(given["advertise"], listen),
        password=resolve_reference("--sessions-password", given["sessions_password"], ours),
        prefix=given["sessions_prefix"],
        ca_file=given["sessions_ca"],
        key=key,
        policy=ReplicaPolicy(lease_s=given["lease"]),
    )


def plan_address(given: Mapping[str, Any]) -> StoreAddress:
    """Where the sessions are, with what belongs to it: checked. Raises UserError."""
    address = parse_store_address(given["sessions"])
    if given["sessions_ca"] and not address.tls:
        raise conflict("--sessions-ca is for TLS, which the address does not ask for", "write rediss://…")
    if not PREFIX.fullmatch(given["sessions_prefix"]):
        raise conflict(
            f"--sessions-prefix {given['sessions_prefix'][:40]!r}: keys cannot begin like that",
            "use letters, digits, and any of _ . : -",
        )
    return address


def resolve_key(text: str | None, ours: Mapping[str, str]) -> str | None:
    """With which replicas know each other; None: one that is kept in Redis. Raises UserError."""
    key = resolve_reference("--replica-key", text, ours)
    if key is not None and len(key) < LEAST_KEY:
        raise UserError(
            f"the key of --replica-key has {len(key)} characters; it needs {LEAST_KEY}",
            code="weak_key",
            hint="make one with: openssl rand -base64 24",
        )
    return key


def resolve_reference(option: str, text: str | None, ours: Mapping[str, str]) -> str | None:
    """What a reference leads to; None: there is none. A value itself is refused: it would be seen."""
    if not text:
        return None
    if not parse(text).references:
        raise UserError(
            f"{option} names where the value is, it is not the value itself, which everybody here could see",
            code="secret_on_command_line",
            hint=f"write {option} file:PATH, env:NAME, secret:NAME or keyring:NAME",
        )
    vault = Vault(find_places(ours).secrets)
    remedy = "set {name} where this command is run"
    resolver = Resolver(vault, ours, whose="the environment of this command", remedy=remedy)
    value = resolver.resolve({option: text}).variables[option].strip()
    if not value:
        raise UserError(
            f"{option} {text} leads to nothing: what is there is empty",
            code="empty_secret",
            hint=f"put the value there, or leave out {option} if none is wanted",
        )
    return value


def _advertised(url: str | None, listen: ListenOptions) -> str:
    """Where the others reach us."""
    if url:
        return _checked(url, listen)
    if listen.unix is not None or listen.port == 0 or listen.host in ANY_ADDRESS:
        raise UserError(
            "where other replicas reach this one does not follow from where it listens",
            code="advertise_missing",
            hint="add --advertise http://ADDRESS:PORT",
        )
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    return f"{'https' if listen.tls_cert else 'http'}://{host}:{listen.port}"


def _checked(url: str, listen: ListenOptions) -> str:
    """Where the others can really reach us. Raises UserError."""
    origin, target = parse_url(url)
    if target not in ("/", ""):
        raise UserError(
            f"--advertise {url} has a path", code="bad_url", hint="write http://ADDRESS:PORT, and no more"
        )
    if _is_any_address(origin.host):
        raise UserError(
            f"--advertise {url}: {origin.host} means every address of a machine, so each replica would reach "
            "itself there",
            code="bad_url",
            hint="name the one at which the others reach this machine: --advertise http://10.1.2.3:4670",
        )
    given = urlsplit(url).port
    if given == 0 or (given is None and listen.port != origin.port):
        raise UserError(
            f"--advertise {url} names no port, and {origin.port} is not where this one listens"
            if given is None
            else f"--advertise {url}: nobody can be reached at port 0",
            code="bad_url",
            hint=f"write the port at which the others reach it, also if it is {origin.port}: "
            "--advertise http://ADDRESS:PORT",
        )
    return url.rstrip("/")


def _is_any_address(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "0"  # which resolvers take for 0.0.0.0
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_unspecified
