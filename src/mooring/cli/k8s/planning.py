"""From what was given on the command line, or stands in a file, to a release. Nothing is written here."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mooring.cli.files.definitions import read_file
from mooring.cli.files.finding import find_file, tell_remarks
from mooring.cli.files.settings import span
from mooring.cli.k8s.command import OF_THE_SERVER
from mooring.cli.k8s.in_the_clear import refuse_secrets_in_the_clear
from mooring.cli.k8s.server_parts import parts_of
from mooring.cli.running.conflicts import as_options, conflict
from mooring.cli.running.plan import plan_server
from mooring.cli.running.run import run
from mooring.errors import UserError
from mooring.host.grace import grace_period_s
from mooring.host.shutdown import DrainPolicy
from mooring.kubernetes.container_words import CA_FILE, PASSWORD_FILE, REPLICA_KEY_FILE, TOKENS_FILE
from mooring.kubernetes.network import INTERNET
from mooring.kubernetes.release import Entrance, Exit, Release, SecretKey, SharedSessions, object_name
from mooring.replicas.address import StoreAddress, parse_store_address
from mooring.workloads.definition import ServerOptions

__all__ = ["plan_release"]

DEFAULT_URL = "redis://redis:6379/0"
"""A Service named redis in the same namespace."""
REDIS_PORT = 6379
"""To which sentinels lead."""


class _Server(NamedTuple):
    options: ServerOptions
    home: Path | None
    """The folder that it has if nothing is said of it."""


def plan_release(
    given: Mapping[str, Any], chosen: Collection[str], command: tuple[str, ...], ours: Mapping[str, str]
) -> Release:
    """What is to run, or a `UserError`; for the parameters see `running.plan.plan_foreground`."""
    if given["image"] is None:
        raise UserError(
            "there is no image for the pods",
            code="no_image",
            hint="add --image IMAGE; deploy/Dockerfile makes one",
        )
    tokens = _tokens(given)
    sessions = _sessions(given, tokens)
    _check_replicas(given["replicas"], sessions)
    server = _server(given, chosen, command, ours)
    options = server.options
    parts = parts_of(options, dict(given["secrets"]), server.home)
    refuse_secrets_in_the_clear(
        options.name,
        variables=parts.variables,
        headers=parts.headers,
        command=parts.command,
        url=options.remote.url if options.remote else "",
        plain=given["plain"],
    )
    policy = DrainPolicy(
        delay_s=given["drain_delay"],
        timeout_s=given["drain_timeout"],
        children_s=options.patience.eof_grace_s + options.patience.stop_grace_s,
    )
    grace_s = grace_period_s(policy)
    assert grace_s is not None  # noqa: S101 - the time-out is bounded: see `parse_bounded`
    return Release(
        name=options.name,
        image=given["image"],
        settings=parts.settings,
        command=parts.command,
        takes_variables=options.remote is None,
        variables=parts.variables,
        secret_files=parts.secret_files,
        # Without Redis a second replica would know nothing of the sessions of the first: nobody may add one.
        replicas=given["replicas"] or (None if sessions else 1),
        sessions=sessions,
        tokens=tokens,
        hosts=given["allow_host"],
        origins=given["allow_origin"],
        entrance=Entrance(given["allow_from"], given["allow_from_namespace"]),
        exits=(*parts.exits, *_exits(given["egress"])),
        drain_delay=span(given["drain_delay"]),
        drain_timeout=span(given["drain_timeout"]),
        grace_period_s=grace_s,
        namespace=given["namespace"],
        pull_secrets=given["pull_secret"],
        uid=given["uid"],
        cpu=given["cpu"],
        memory=given["memory"],
        scratch=given["scratch"],
        ipv6=given["ipv6"],
    )


def _server(
    given: Mapping[str, Any], chosen: Collection[str], command: tuple[str, ...], ours: Mapping[str, str]
) -> _Server:
    if command or given["source"] or given["url"]:
        if given["file"]:
            raise conflict("--file takes the place of a command", "give one or the other")
        return _Server(_from_command_line(given, chosen, command), None)
    if wrong := sorted(set(chosen) & OF_THE_SERVER):
        hint = "give the server's command after --, or write it into the file"
        raise conflict(f"{as_options(wrong)}: the file says this", hint)
    return _from_file(given["name"], given["file"], ours)


def _from_command_line(
    given: Mapping[str, Any], chosen: Collection[str], command: tuple[str, ...]
) -> ServerOptions:
    # Of a `mooring run` without any options: it has the defaults. See `files.definitions`.
    context = run.make_context(run.name, [given["name"], "--", "command"], help_option_names=[])
    asked = {**context.params, **{name: given[name] for name in OF_THE_SERVER}}
    # Nothing of this terminal comes along.
    return plan_server(asked, OF_THE_SERVER & set(chosen), (*(given["source"] or ()), *command), {})


def _from_file(name: str, file: str | None, ours: Mapping[str, str]) -> _Server:
    try:
        path = find_file(file)
    except UserError as error:
        raise UserError(
            f"there is no command to run, and {error.message}",
            code="no_command",
            hint="put the command after --, or name a file with the server in it: -f FILE",
        ) from None
    asked = read_file(path, ours)
    tell_remarks("note", asked.shown, asked.notes)
    if name not in asked.servers:
        raise UserError(
            f"{asked.shown} has no server named {name}",
            code="unknown_server",
            hint=f"it has: {', '.join(asked.servers) or 'none'}",
        )
    return _Server(asked.servers[name].options, Path(asked.origin).parent)


def _sessions(given: Mapping[str, Any], tokens: SecretKey | None) -> SharedSessions | None:
    url, secret, authority = given["redis_url"], given["redis_secret"], given["redis_ca_secret"]
    if not (url or secret):
        if authority:
            raise conflict("--redis-ca-secret says nothing of where Redis is", "add --redis-url rediss://…")
        return None
    address = _address(url or DEFAULT_URL)
    if authority and not address.tls:
        raise conflict(
            "--redis-ca-secret goes with rediss://, which is encrypted", "write --redis-url rediss://…"
        )
    led_to = (REDIS_PORT,) if address.kind == "sentinel" else ()
    return SharedSessions(
        url=url or DEFAULT_URL,
        ports=tuple(dict.fromkeys((*(port for _, port in address.hosts), *led_to))),
        password=SecretKey(secret, PASSWORD_FILE) if secret else None,
        ca=SecretKey(authority, CA_FILE) if authority else None,
        # Whoever has it acts for everybody, as with all tokens: so it is kept where those are.
        replica_key=SecretKey(tokens.secret, REPLICA_KEY_FILE) if tokens else None,
    )


def _address(url: str) -> StoreAddress:
    try:
        return parse_store_address(url)
    except UserError as error:
        if error.code != "password_in_address":
            raise
        raise UserError(
            "--redis-url has a password in it, and everybody can read a manifest",
            code=error.code,
            hint="take it out, and keep it in a Secret under the key password: --redis-secret SECRET",
        ) from None


def _check_replicas(replicas: int | None, sessions: SharedSessions | None) -> None:
    if sessions is None and (replicas or 1) > 1:
        raise UserError(
            f"{replicas} replicas need Redis: with sessions in memory, each would know only its own, "
            "and clients would lose theirs",
            code="replicas_without_redis",
            hint="say where Redis is: --redis-url redis://HOST:6379/0, "
            "and --redis-secret SECRET for its password; or have one replica",
        )


def _tokens(given: Mapping[str, Any]) -> SecretKey | None:
    if given["no_auth"]:
        if given["token_secret"]:
            raise conflict("--no-auth contradicts --token-secret", "give one or the other")
        return None
    return SecretKey(given["token_secret"] or f"{object_name(given['name'])}-tokens", TOKENS_FILE)


def _exits(asked: tuple[tuple[Exit, ...] | None, ...]) -> tuple[Exit, ...]:
    if None in asked and len(asked) > 1:
        raise conflict("--egress none contradicts every other --egress", "leave one of them out")
    if not asked:
        return INTERNET
    return tuple(dict.fromkeys(out for outs in asked for out in outs or ()))
