"""From what was given on the command line to what a foreground run is asked to do.

Combinations of options that cannot work, or would open more than was meant, are refused
here, before anything is started.
"""

import ipaddress
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mooring.cli.running.addresses import check_remote, plan_remote
from mooring.cli.running.conflicts import conflict
from mooring.cli.running.images import plan_container
from mooring.cli.running.replicas import plan_replicas
from mooring.cli.running.served import plan_served
from mooring.errors import UserError
from mooring.host.options import ForegroundOptions, ListenOptions, ServerOptions
from mooring.host.places import find_places
from mooring.proxy.policy import SessionPolicy
from mooring.runtimes.containers.spec import ContainerSpec, check_spec
from mooring.runtimes.environment import DEFAULT_NAMES, build_environment, read_env_file
from mooring.runtimes.program import ProcessSpec, check_program
from mooring.runtimes.stopping import StopPatience
from mooring.secrets.references import sort_out
from mooring.supervise.restart import RestartPolicy
from mooring.workloads.definition import Borrowed

__all__ = ["check_server", "plan_foreground", "plan_server"]


def plan_foreground(
    given: Mapping[str, Any], chosen: Collection[str], command: tuple[str, ...], ours: Mapping[str, str]
) -> ForegroundOptions:
    """What is to be done, or a `UserError`.

    `given`: parsed options by name; `chosen`: which of them are not mere defaults;
    `command`: what came after `--`; `ours`: our environment.
    """
    server = plan_server(given, chosen, command, ours)
    listen = _plan_listen(given, chosen)
    return ForegroundOptions(
        server=server,
        replicas=plan_replicas(given, chosen, listen, ours),
        secrets=find_places(ours).secrets if server.elsewhere or server.remote is not None else None,
        listen=listen,
        drain_delay_s=given["drain_delay"],
        drain_timeout_s=given["drain_timeout"],
    )


def plan_server(
    given: Mapping[str, Any], chosen: Collection[str], command: tuple[str, ...], ours: Mapping[str, str]
) -> ServerOptions:
    """The server alone, or a `UserError`; see `plan_foreground`."""
    container, remote = plan_container(given, chosen, ours), plan_remote(given, chosen, command)
    served = plan_served(given, chosen)
    is_process = container is None and remote is None
    if is_process:
        _check_command(given["name"], command)
    texts, references = sort_out(dict(given["env"]), Path())
    file_variables: dict[str, str] = {}
    for name in given["env_file"]:
        file_variables |= read_env_file(Path(name))
    environment = build_environment(
        ours,
        unasked=DEFAULT_NAMES if is_process else (),
        inherit_env=given["inherit_env"],
        pass_env=given["pass_env"],
        env_file=file_variables,
        env=texts,
    )
    return ServerOptions(
        name=given["name"],
        argv=command,
        container=container,
        remote=remote,
        served=served,
        # What a reference takes the place of may be a secret itself: it is not written down.
        env={name: value for name, value in environment.items() if name not in references},
        env_references=references,
        borrowed=_borrowed(given, {*file_variables, *dict(given["env"])}, environment),
        cwd=Path(given["cwd"]).absolute() if given["cwd"] else None,
        spare=given["spare"] if "spare" in chosen or not (_stands(given) or served) else 0,
        sessions=SessionPolicy(
            max_sessions=given["max_sessions"],
            shared=given["shared"] or 0,
            max_message_bytes=given["max_message_bytes"],
            idle_timeout_s=given["idle_timeout"],
            call_timeout_s=given["call_timeout"],
            ping_interval_s=given["ping_interval"],
            ping_timeout_s=given["ping_timeout"],
            retry=given["retry"],
        ),
        restarts=RestartPolicy(restart=not given["no_restart"]),
        patience=StopPatience(given["eof_grace"], given["stop_grace"]),
        client_refresh=given["client_refresh"],
    )


def _stands(given: Mapping[str, Any]) -> bool:
    """Is there something anyway, so that nothing need be kept ready beside it?"""
    return bool(given["shared"] or given["url"])


def _check_command(name: str, command: tuple[str, ...]) -> None:
    if not command or not command[0].strip():
        raise UserError(
            "there is no command to run" if not command else "the command to run is empty",
            code="no_command",
            hint=f"put it after --, as in: mooring run {name} -- uvx mcp-server-time",
        )


def _borrowed(given: Mapping[str, Any], values: Collection[str], env: Collection[str]) -> Borrowed:
    """Which of the variables are ours; `values`: those whose values were given."""
    named = sorted(set(given["pass_env"]) - set(values))
    unnamed = sorted(set(env) - set(values) - set(named))
    return Borrowed(all=given["inherit_env"], named=tuple(named), unnamed=tuple(unnamed))


def check_server(options: ServerOptions) -> None:
    """Can it be started at all? Raises UserError, before anybody is given a server that cannot.

    No engine is asked for a container: only the daemon's own can tell what is there.
    """
    if options.remote is not None:
        check_remote(options.remote)
        return
    if options.container is not None:
        # Without its references: their values are known when it is started, and need no check before.
        check_spec(ContainerSpec.of(options.container, options.name, options.argv, options.env))
        return
    if "PATH" in options.env_references:
        return  # where programs are is known when it is started
    check_program(ProcessSpec(name=options.name, argv=options.argv, env=options.env, cwd=options.cwd))


def _plan_listen(given: Mapping[str, Any], chosen: Collection[str]) -> ListenOptions:
    if given["unix"] and {"host", "port"} & set(chosen):
        raise conflict("--unix takes the place of --host and --port", "give one or the other")
    if given["unix"] and given["tls_cert"]:
        raise conflict("a unix socket is not reached over TLS", "leave out --tls-cert and --tls-key")
    if bool(given["tls_cert"]) != bool(given["tls_key"]):
        raise conflict("--tls-cert and --tls-key belong together", "give both or none")
    if given["no_auth"] and given["token_file"]:
        raise conflict("--no-auth contradicts --token-file", "give one or the other")
    if not given["unix"] and not _is_loopback(given["host"]):
        _check_remote(given)
    return ListenOptions(
        host=given["host"],
        port=given["port"],
        unix=_path(given["unix"]),
        tls_cert=_path(given["tls_cert"]),
        tls_key=_path(given["tls_key"]),
        allow_hosts=given["allow_host"],
        allow_origins=given["allow_origin"],
        allow_remote=given["allow_remote"],
        no_auth=given["no_auth"],
        token_file=_path(given["token_file"]),
    )


def _check_remote(given: Mapping[str, Any]) -> None:
    if not given["allow_remote"]:
        raise UserError(
            f"other machines could reach {given['host']}, and run the server's tools",
            code="remote_not_allowed",
            hint="listen on 127.0.0.1, or add --allow-remote with --token-file PATH",
        )
    if not given["token_file"] and not given["no_auth"]:
        raise UserError(
            f"anybody who can reach {given['host']} could run the server's tools",
            code="remote_without_token",
            hint="add --token-file PATH, or --no-auth if the network itself keeps strangers out",
        )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        # Any other name may lead anywhere, now or later.
        return host.lower() == "localhost"
