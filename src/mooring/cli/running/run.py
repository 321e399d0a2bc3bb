"""`mooring run`: one server, kept reachable."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from mooring.cli.clients.ids import ClientIds
from mooring.cli.running.conflicts import as_options
from mooring.cli.running.sources import parse_source
from mooring.cli.terminal.layout import ServerCommand, log_options, section
from mooring.cli.values import (
    Parsed,
    parse_address,
    parse_assignment,
    parse_count,
    parse_cpus,
    parse_duration,
    parse_engine,
    parse_header,
    parse_image,
    parse_limit,
    parse_memory,
    parse_name,
    parse_path,
    parse_port,
    parse_port_of_container,
    parse_size,
    parse_user,
    parse_variable,
    parse_volume,
)
from mooring.errors import UserError

__all__ = ["run"]

COUNT = Parsed("n", parse_count)
SPAN = Parsed("time", parse_duration)
LIMIT = Parsed("time|none", parse_limit)
FOREGROUND_ONLY = frozenset(
    {
        "host",
        "port",
        "unix",
        "tls_cert",
        "tls_key",
        "allow_remote",
        "token_file",
        "no_auth",
        "allow_host",
        "allow_origin",
        "no_restart",
        "sessions",
        "sessions_password",
        "sessions_prefix",
        "sessions_ca",
        "advertise",
        "replica_key",
        "lease",
        "drain_delay",
        "drain_timeout",
        "log_level",
        "log_format",
    }
)
BACKGROUND_ONLY = frozenset({"replace", "no_wait", "as_json", "client"})
READABLE_FILE = click.Path(exists=True, dir_okay=False, readable=True)

mode = section("Mode")
where = section("Where it listens (with --foreground)")
who = section("Who may use it (with --foreground)")
environment = section("What the server gets")
containers = section("Containers (with --image)")
elsewhere = section("Servers elsewhere (with --url)")
over_http = section("Programs that speak HTTP")
sessions = section("Sessions and calls")
replicas = section("One of several replicas (with --foreground)")
ending = section("Stopping")
clients = section("AI clients")

EXAMPLES = """\
\b
Examples:
  mooring run time -- uvx mcp-server-time
  mooring run time --from uvx:mcp-server-time -- --local-timezone UTC
  mooring run notes --from npx:@modelcontextprotocol/server-memory
  mooring run git --pass-env GITHUB_TOKEN -- uvx mcp-server-git
  mooring run linear --env LINEAR_API_KEY=secret:linear -- npx linear-mcp
  mooring run gh --image ghcr.io/github/github-mcp-server \\
    --env GITHUB_PERSONAL_ACCESS_TOKEN=secret:github
  mooring run files --image mcp/filesystem --volume ./src:/src:ro -- /src
  mooring run linear --url https://mcp.example.com/mcp \\
    --header 'Authorization: Bearer {secret:linear}'
  mooring run local --transport http --port-env PORT -- node server.js
  mooring run web --image example/mcp --transport http --container-port 8080
  mooring run time --client cursor,claude-code -- uvx mcp-server-time
  mooring run --foreground time --port 4671 -- uvx mcp-server-time
  mooring run --foreground demo --port 0 -- python -m mooring.demo
  mooring run --foreground fs -- \\
    npx -y @modelcontextprotocol/server-filesystem /data

\b
Times are written 500ms, 1.5s, 30m, 2h or as plain seconds;
sizes 64MiB, 10MB or as plain bytes.

\b
Exit status:
  0  the server is ready; with --foreground: stopped as asked
  1  the server is not ready, or has failed; the port cannot be had
  2  wrong usage or configuration
  3  with --foreground: a call was cut off at the deadline of a shutdown
"""


def _in_kubernetes() -> bool:
    # Set by Kubernetes in every container. There, requests keep coming for some seconds after
    # SIGTERM, until all endpoints are updated; and SIGKILL comes 30 s after it by default.
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


@click.command(cls=ServerCommand, epilog=EXAMPLES)
@click.argument("name", type=Parsed("name", parse_name))
@mode(
    "--foreground", is_flag=True, help="Serve from this process until it is told to stop; without the daemon."
)
@mode(
    "--from",
    "source",
    type=Parsed("source", parse_source),
    metavar="SOURCE",
    help="Run npx:PACKAGE[@VERSION], uvx:PACKAGE[@VERSION] or python:MODULE, with the arguments after --.",
)
@mode(
    "--image",
    type=Parsed("image", parse_image),
    metavar="IMAGE",
    help="Run a container of this image, on Docker or Podman, with the arguments after --.",
)
@mode(
    "--url",
    type=Parsed("url", parse_address),
    metavar="URL",
    help="Stand in front of a server that runs already, here or elsewhere, and speaks HTTP.",
)
@mode("--replace", is_flag=True, help="Put it in the place of a server of that name with another definition.")
@mode("--no-wait", is_flag=True, help="Do not wait until it is ready.")
@mode(
    "--json", "as_json", is_flag=True, help="Print the server as JSON, for programs; not with --foreground."
)
@where("--host", metavar="HOST", default="127.0.0.1", show_default=True, help="Address to listen on.")
@where(
    "--port",
    type=Parsed("port", parse_port),
    default="4670",
    show_default=True,
    help="Port to listen on; 0 picks a free one and prints it.",
)
@where("--unix", type=click.Path(), metavar="PATH", help="Listen on a unix socket instead of a port.")
@where("--tls-cert", type=READABLE_FILE, metavar="PATH", help="Certificate chain (PEM): serve https.")
@where("--tls-key", type=READABLE_FILE, metavar="PATH", help="Private key (PEM) of the certificate.")
@who("--allow-remote", is_flag=True, help="Allow an address that other machines can reach.")
@who(
    "--token-file",
    type=READABLE_FILE,
    metavar="PATH",
    help="Demand a bearer token of this file, which has one TOKEN or NAME TOKEN a line.",
)
@who("--no-auth", is_flag=True, help="With --allow-remote: really let in everybody, without a token.")
@who("--allow-host", multiple=True, metavar="HOST", help="Also accept this Host header. Repeatable.")
@who(
    "--allow-origin",
    multiple=True,
    metavar="ORIGIN",
    help="Let web pages of this origin in, such as https://app.example. Repeatable.",
)
@environment(
    "--env",
    multiple=True,
    type=Parsed("K=V", parse_assignment),
    metavar="K=V",
    help="Set a variable for the server. Repeatable; wins over everything else. V may name where the value "
    "is: secret:NAME, keyring:NAME, file:PATH or env:NAME; also inside a text, as in 'Bearer {secret:NAME}'.",
)
@environment(
    "--env-file",
    multiple=True,
    type=READABLE_FILE,
    metavar="PATH",
    help="Set the variables in this file, one K=V a line. Repeatable.",
)
@environment(
    "--pass-env",
    multiple=True,
    type=Parsed("name", parse_variable),
    metavar="NAME",
    help="Pass on this variable of ours. Repeatable.",
)
@environment(
    "--inherit-env",
    is_flag=True,
    help="Pass on all our variables, not only HOME, LOGNAME, PATH, SHELL, TERM and USER.",
)
@environment(
    "--cwd",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Working directory of the server.  [default: ours]",
)
@containers(
    "--volume",
    multiple=True,
    type=Parsed("volume", parse_volume),
    metavar="SOURCE:/TARGET[:ro]",
    help="Show it a folder of ours, or a volume of the engine by its name, at TARGET; with :ro only to read. "
    "Repeatable.",
)
@containers(
    "--network",
    type=click.Choice(("none", "bridge", "host")),
    metavar="NETWORK",
    default="bridge",
    show_default=True,
    help="none; bridge: a network of its own, with a way out; host: that of this machine, with all that "
    "listens on it.",
)
@containers(
    "--memory",
    type=Parsed("size", parse_memory),
    metavar="SIZE",
    default="2GiB",
    show_default=True,
    help="Most memory that a container may take; one that takes more is killed.",
)
@containers(
    "--cpus",
    type=Parsed("n", parse_cpus),
    metavar="N",
    show_default="all",
    help="Most processors that a container may take, such as 1.5.",
)
@containers(
    "--user",
    type=Parsed("user", parse_user),
    metavar="USER[:GROUP]",
    show_default="as the image says",
    help="Run as this user, by name or number.",
)
@containers(
    "--read-only", is_flag=True, help="It cannot change its own files; /tmp and volumes can be written."
)
@containers(
    "--pull",
    type=click.Choice(("missing", "always", "never")),
    metavar="WHEN",
    default="missing",
    show_default=True,
    help="Bring the image when it is missing; always: look for a newer one at each start of the server; or "
    "never.",
)
@containers(
    "--engine",
    type=Parsed("engine", parse_engine),
    metavar="ENGINE",
    default="auto",
    show_default=True,
    help="docker, podman, or a socket of one; auto: DOCKER_HOST, CONTAINER_HOST, or the first that is there.",
)
@elsewhere(
    "--header",
    multiple=True,
    type=Parsed("NAME: VALUE", parse_header),
    metavar="'NAME: VALUE'",
    help="Send this header with every request. Repeatable. VALUE names where a secret is, as --env does: "
    "'Authorization: Bearer {secret:NAME}'.",
)
@elsewhere(
    "--ca-file", type=READABLE_FILE, metavar="PATH", help="Trust the authorities in this file (PEM) alone."
)
@elsewhere(
    "--client-cert", type=READABLE_FILE, metavar="PATH", help="Show the server this certificate (PEM)."
)
@elsewhere("--client-key", type=READABLE_FILE, metavar="PATH", help="Its private key (PEM).")
@over_http(
    "--transport",
    type=click.Choice(("auto", "http", "sse")),
    metavar="TRANSPORT",
    default="auto",
    show_default=True,
    help="http: Streamable HTTP; sse: the older HTTP+SSE. With --url also auto: the first that the server "
    "knows. Without, the program is started once, for all sessions, and spoken to over HTTP, not on stdin "
    "and stdout.",
)
@over_http(
    "--port-env",
    type=Parsed("name", parse_variable),
    metavar="NAME",
    help="Tell the program in this variable on which port of 127.0.0.1 to listen.",
)
@over_http(
    "--container-port",
    type=Parsed("port", parse_port_of_container),
    metavar="PORT",
    help="With --image: the port on which the program listens. Only this machine can reach it.",
)
@over_http(
    "--path",
    type=Parsed("path", parse_path),
    metavar="PATH",
    show_default="/mcp; /sse with --transport sse",
    help="Where on its port it speaks MCP.",
)
@sessions(
    "--max-sessions",
    type=Parsed("n", partial(parse_count, least=1)),
    default="1000",
    show_default=True,
    help="Sessions at the same time; more are told to come back later.",
)
@sessions(
    "--idle-timeout",
    type=LIMIT,
    default="30m",
    show_default=True,
    help="End the process of a session that is not used for so long; its next call starts it again.",
)
@sessions(
    "--shared",
    type=Parsed("n", partial(parse_count, least=1)),
    metavar="[N]",
    help="Serve all sessions with one process, or N: for servers that keep nothing of a client. "
    "They cannot ask clients anything.",
)
@sessions(
    "--spare",
    type=COUNT,
    default="1",
    show_default="1; 0 with --shared",
    help="Processes kept ready for the next session while there are sessions.",
)
@sessions(
    "--call-timeout",
    type=LIMIT,
    default="none",
    show_default=True,
    help="Longest time for a call; its progress extends it.",
)
@sessions(
    "--ping-interval",
    type=LIMIT,
    default="30s",
    show_default=True,
    help="Ask a process without calls so often whether it lives; one that misses two pings is replaced.",
)
@sessions(
    "--ping-timeout", type=SPAN, default="10s", show_default=True, help="Longest time to answer a ping."
)
@sessions(
    "--max-message-bytes",
    type=Parsed("size", parse_size),
    default="64MiB",
    show_default=True,
    help="Largest message, either way.",
)
@sessions(
    "--retry", is_flag=True, help="If the server dies, run reads and tools marked as repeatable once more."
)
@sessions(
    "--no-restart",
    is_flag=True,
    help="With --foreground: if the server dies, do not start it again, but exit 1.",
)
@replicas(
    "--sessions",
    metavar="URL",
    help="Share sessions with other replicas in this Redis or Valkey: redis://HOST:PORT/DB; with TLS: "
    "rediss://; redis+sentinel://HOST,HOST/NAME; redis+cluster://HOST,HOST.",
)
@replicas(
    "--sessions-password",
    metavar="REF",
    help="Where its password is: file:PATH, env:NAME, secret:NAME or keyring:NAME.",
)
@replicas(
    "--sessions-prefix",
    metavar="TEXT",
    default="mooring",
    show_default=True,
    help="With what its keys begin. Servers of different names do not meet in any case.",
)
@replicas(
    "--sessions-ca",
    type=READABLE_FILE,
    metavar="PATH",
    help="Trust the authorities in this file (PEM) alone.",
)
@replicas(
    "--advertise",
    metavar="URL",
    show_default="where it listens",
    help="Where other replicas reach this one, such as http://10.1.2.3:4670.",
)
@replicas(
    "--replica-key",
    metavar="REF",
    help="Where the key is with which replicas know each other, as for the password.  "
    "[default: one that is kept in Redis]",
)
@replicas(
    "--lease",
    type=SPAN,
    default="10s",
    show_default=True,
    help="After so long without a sign of life, others take over the sessions of a replica.",
)
@ending(
    "--drain-delay",
    type=SPAN,
    default=lambda: "5s" if _in_kubernetes() else "0s",
    show_default="0s; 5s in Kubernetes",
    help="With --foreground: after a signal, go on so long, until nobody is sent here any more.",
)
@ending(
    "--drain-timeout",
    type=LIMIT,
    default=lambda: "20s" if _in_kubernetes() else "25s",
    show_default="25s; 20s in Kubernetes",
    help="With --foreground: then give calls, and the stopping of the server, so long.",
)
@ending(
    "--eof-grace",
    type=SPAN,
    default="2s",
    show_default=True,
    help="Time between closing the server's stdin and SIGTERM.",
)
@ending("--stop-grace", type=SPAN, default="5s", show_default=True, help="Time between SIGTERM and SIGKILL.")
@clients(
    "--client",
    multiple=True,
    type=ClientIds(),
    metavar="CLIENTS",
    help="Tell these AI clients of it when it is ready, as in cursor,zed; or all, or none. Repeatable. "
    "If it is not given: those that know of it, and those that are to know of all servers.",
)
@clients(
    "--client-refresh",
    type=click.Choice(("auto", "always", "never")),
    metavar="WHEN",
    default="auto",
    show_default=True,
    help="Take it out of the files of AI clients and put it back, so that they connect anew: when sessions "
    "were lost (auto), whenever a process of it dies (always), or never.",
)
@log_options
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> int:
    """Run an MCP server and serve it at one URL that stays.

    NAME is yours to choose. COMMAND starts the server, which speaks MCP on stdin and stdout;
    it is run as it is, without a shell. With --image it is in a container, and the image has
    the command; with --url it runs already; with --transport http it is started once, and
    speaks HTTP. Clients connect to http://127.0.0.1:4670/NAME/mcp,
    each with a process (or a container) of its own, and keep their session when that crashes.
    The server runs in the background, also after a restart of Mooring; with --foreground in
    this process, at /mcp, and without keeping anything.

    It returns when the server is ready, and prints its URL. To run the same again is nothing;
    another command under the same NAME needs --replace.
    """
    chosen = {name for name in given if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
    if given["header"] or given["url"]:
        from mooring.cli.running.addresses import refuse_secrets  # noqa: PLC0415 - heavy

        refuse_secrets(given["name"], dict(given["header"]), given["url"])
    run_it = _run_here if given["foreground"] else _run_in_background
    return run_it(given, chosen, (*(given["source"] or ()), *ctx.obj))


def _run_in_background(given: dict[str, Any], chosen: set[str], command: tuple[str, ...]) -> int:
    """Give the server to the daemon, and wait until it is known whether it works."""
    if wrong := sorted(chosen & FOREGROUND_ONLY):
        raise UserError(
            f"{as_options(wrong)}: works only with --foreground",
            code="foreground_only",
            hint="add --foreground",
        )
    import json  # noqa: PLC0415 - heavy from here on

    from mooring.cli.running.plan import check_server, plan_server  # noqa: PLC0415
    from mooring.cli.servers.changing import run_server  # noqa: PLC0415
    from mooring.workloads.definition import dump_options  # noqa: PLC0415

    # The daemon's own directory is of no meaning to anybody; a container has one of its own.
    is_program = not given["image"] and not given["url"]
    cwd = given["cwd"] or (str(Path.cwd()) if is_program else None)
    options = plan_server({**given, "cwd": cwd}, chosen, command, os.environ)
    check_server(options)
    tell_clients = _clients_to_tell(given["client"])
    body = {"options": json.loads(dump_options(options)), "replace": given["replace"]}
    wait, as_json = not given["no_wait"], given["as_json"]
    return run_server(given["name"], body, wait=wait, as_json=as_json, after=tell_clients)


def _clients_to_tell(asked: tuple[tuple[str, ...], ...]) -> Callable[[dict[str, Any]], int] | None:
    """What is to be done when the server is up; None: nothing. Whoever has no clients pays for none."""
    from mooring.cli.clients.quick import has_told_clients  # noqa: PLC0415

    if not asked and not has_told_clients():
        return None
    from mooring.cli.clients.after_run import plan_telling  # noqa: PLC0415

    return plan_telling(tuple(dict.fromkeys(id for ids in asked for id in ids)))


def _run_here(given: dict[str, Any], chosen: set[str], command: tuple[str, ...]) -> int:
    if wrong := sorted(chosen & {*BACKGROUND_ONLY, "client_refresh"}):
        raise UserError(
            f"{as_options(wrong)}: does not go with --foreground", code="background_only", hint="leave it out"
        )
    # Heavy from here on.
    from mooring.cli.running.plan import plan_foreground  # noqa: PLC0415
    from mooring.cli.terminal import output  # noqa: PLC0415

    options = plan_foreground(given, chosen, command, os.environ)
    with output.logs_on_stderr(given["log_format"], given["log_level"]) as log:
        from mooring.host import foreground  # noqa: PLC0415

        try:
            status: int = foreground.main(options)
        except Exception as error:
            if given["log_format"] == "text":
                raise  # told like every other error
            return output.log_failure(log, error)
        return status
