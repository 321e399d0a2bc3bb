"""`mooring k8s` and its commands."""

import os
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from mooring.cli.running.run import run
from mooring.cli.servers.commands import examples
from mooring.cli.terminal.layout import ServerCommand, section
from mooring.cli.values import Parsed, parse_assignment, parse_count, parse_duration, parse_image, parse_name

__all__ = ["OF_THE_SERVER", "k8s"]

F = TypeVar("F", bound=Callable[..., Any])

# What it does is loaded when it runs: `mooring k8s --help` must feel instant.

OF_PROGRAMS = ("transport", "port_env", "path")
OF_SESSIONS = (
    "max_sessions",
    "idle_timeout",
    "shared",
    "spare",
    "call_timeout",
    "ping_interval",
    "ping_timeout",
    "max_message_bytes",
    "retry",
)
OF_ENDING = ("eof_grace", "stop_grace")
OF_THE_SERVER = frozenset(
    {"source", "url", "header", "env", "env_file", *OF_PROGRAMS, *OF_SESSIONS, *OF_ENDING}
)
"""What a file says, if the server is taken from one."""

pods = section("The pods")
redis = section("Sessions in Redis")
who = section("Who may use it")
reach = section("What it may reach")
THE_SERVER = "The server"
server = section(THE_SERVER)
ending = section("Stopping")
output = section("Output")


def _parsed(name: str, parser: str) -> Parsed:
    """By the name of a parser of `cli.k8s.values`, which is loaded with the first value."""

    def parse(text: str) -> Any:
        from mooring.cli.k8s import values  # noqa: PLC0415

        return getattr(values, parser)(text)

    return Parsed(name, parse)


def _parse_amount(text: str) -> Any:
    from mooring.kubernetes.quantities import parse_amount  # noqa: PLC0415

    return parse_amount(text)


def _parse_memory(text: str) -> Any:
    from mooring.kubernetes.quantities import parse_memory  # noqa: PLC0415

    return parse_memory(text)


def _as_run(*names: str, title: str = "") -> Callable[[F], F]:
    """Options of `mooring run`, as they are there; under another title."""
    options = {option.name: option for option in run.params}

    def decorate(command: F) -> F:
        for name in reversed(names):
            option = copy(options[name])
            if title:
                vars(option)["section"] = title
            # As click.option does it, which makes options and takes none.
            command.__dict__.setdefault("__click_params__", []).append(option)
        return command

    return decorate


class RenderCommand(ServerCommand):
    """With a command line after `--`, unless a file has it."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line."""
        return ["NAME", "--image", "IMAGE", "[OPTIONS]", "[--", "COMMAND", "[ARGS]...]"]


@click.group(
    short_help="Run servers in Kubernetes.",
    epilog=examples("mooring k8s render time --image example/mooring:1 | kubectl apply -f -"),
)
def k8s() -> None:
    """Run servers in Kubernetes, as many replicas as you like: docs/kubernetes.md."""


@k8s.command(
    cls=RenderCommand,
    short_help="Print the manifests of a server.",
    epilog=examples(
        "mooring k8s render time --image registry.example.com/mooring:1 \\",
        "  --replicas 3 --redis-secret redis-auth -- uvx mcp-server-time",
        "mooring k8s render github --image registry.example.com/github-mcp:4 \\",
        "  --redis-url rediss://redis.data:6379/0 --redis-secret redis-auth \\",
        "  --env GITHUB_TOKEN=secret:github -- github-mcp-server stdio",
        "mooring k8s render notes -f mooring.toml --out deploy/notes \\",
        "  --image registry.example.com/mooring:1",
        "kubectl apply -k deploy/notes",
    ),
)
@click.argument("name", type=Parsed("name", parse_name))
@pods(
    "--image",
    type=Parsed("image", parse_image),
    metavar="IMAGE",
    help="Of the pods. It has Mooring in it, and what the server needs: deploy/Dockerfile. It must be given.",
)
@pods(
    "--replicas",
    type=Parsed("n", partial(parse_count, least=1)),
    metavar="N",
    help="How many; more than one needs Redis. If it is not given, with Redis: left to an autoscaler.",
)
@pods(
    "--namespace",
    "-n",
    type=_parsed("name", "parse_namespace"),
    metavar="NAME",
    show_default="where they are applied",
    help="Of all objects.",
)
@pods(
    "--cpu",
    type=Parsed("amount", _parse_amount),
    metavar="REQUEST[:LIMIT]",
    default="100m",
    show_default=True,
    help="Processors of a pod. Without :LIMIT it may also take what others leave.",
)
@pods(
    "--memory",
    type=Parsed("amount", _parse_memory),
    metavar="REQUEST[:LIMIT]",
    default="256Mi:2Gi",
    show_default=True,
    help="Memory of a pod, for Mooring and all processes of the server in it. Without :LIMIT there is none: "
    "it may take all that its node has.",
)
@pods(
    "--scratch",
    type=_parsed("amount", "parse_scratch"),
    metavar="AMOUNT",
    default="2Gi",
    show_default=True,
    help="What a pod may write: in its home, with all caches, and in /tmp. Nothing else can be written.",
)
@pods(
    "--uid",
    type=_parsed("n", "parse_uid"),
    metavar="N",
    default="10001",
    show_default=True,
    help="Run as this user and group.",
)
@pods(
    "--pull-secret",
    multiple=True,
    type=_parsed("name", "parse_object_name"),
    metavar="SECRET",
    help="With which the image is pulled. Repeatable.",
)
@pods("--ipv6", is_flag=True, help="Addresses of pods are of IPv6.")
@redis(
    "--redis-url",
    metavar="URL",
    help="Where sessions are kept: redis://, rediss://, also with +sentinel or +cluster; without a password. "
    "With --redis-secret alone it is redis://redis:6379/0.",
)
@redis(
    "--redis-secret",
    type=_parsed("name", "parse_object_name"),
    metavar="SECRET",
    help="The Secret with its password, under the key password.",
)
@redis(
    "--redis-ca-secret",
    type=_parsed("name", "parse_object_name"),
    metavar="SECRET",
    help="The Secret with the authority of its certificate, under the key ca.crt.",
)
@who(
    "--token-secret",
    type=_parsed("name", "parse_object_name"),
    metavar="SECRET",
    show_default="NAME-tokens",
    help="The Secret with the tokens of clients, under the key tokens: one TOKEN or NAME TOKEN a line. "
    "With Redis also a key with which replicas know each other, under replica-key.",
)
@who("--no-auth", is_flag=True, help="Really let in everybody who can connect, without a token.")
@who(
    "--allow-host",
    multiple=True,
    type=_parsed("host", "parse_host"),
    metavar="HOST",
    help="Also accept this Host header, beside the names of the Service: that of an ingress. Repeatable.",
)
@who(
    "--allow-origin",
    multiple=True,
    metavar="ORIGIN",
    help="Let web pages of this origin in, such as https://app.example. Repeatable.",
)
@who(
    "--allow-from",
    multiple=True,
    type=_parsed("labels", "parse_labels"),
    metavar="LABELS",
    help="Let pods connect that have these labels, as in app=web,tier=front; not all of the namespace. "
    "Repeatable.",
)
@who(
    "--allow-from-namespace",
    multiple=True,
    type=_parsed("name", "parse_namespace"),
    metavar="NAME",
    help="Let pods of this namespace connect, that of an ingress controller say; not all of its own. "
    "Repeatable.",
)
@reach(
    "--egress",
    multiple=True,
    type=_parsed("where", "parse_egress"),
    metavar="WHERE",
    show_default="internet",
    help="internet: HTTPS, but to no private address; any; none; a port; a network, as in 10.1.0.0/16:5432. "
    "DNS, Redis and the replicas can be reached anyway. Repeatable.",
)
@server(
    "-f",
    "--file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    show_default="mooring.toml",
    help="Without a command: take the server NAME from this file.",
)
@_as_run("source", "url", title=THE_SERVER)
@server(
    "--env",
    multiple=True,
    type=Parsed("K=V", parse_assignment),
    metavar="K=V",
    help="Set a variable for the server. Repeatable. V is text, or secret:NAME for the Secret NAME, key "
    "value; also inside a text, as in 'Bearer {secret:NAME}'.",
)
@_as_run("env_file", "header", title=THE_SERVER)
@server(
    "--secret",
    "secrets",
    multiple=True,
    type=_parsed("place", "parse_secret_place"),
    metavar="NAME=SECRET[/KEY]",
    help="secret:NAME is in this Secret, under this key. Repeatable.",
)
@server(
    "--plain",
    multiple=True,
    metavar="NAME",
    help="The variable, header or option NAME of the server is no secret, whatever it looks like. "
    "Repeatable.",
)
@_as_run(*OF_PROGRAMS)
@_as_run(*OF_SESSIONS)
@ending(
    "--drain-delay",
    type=Parsed("time", parse_duration),
    metavar="TIME",
    default="5s",
    show_default=True,
    help="After SIGTERM, go on so long, until nobody is sent there any more.",
)
@ending(
    "--drain-timeout",
    type=_parsed("time", "parse_bounded"),
    metavar="TIME",
    default="20s",
    show_default=True,
    help="Then give calls, and the stopping of the server, so long. The pod's grace period is made of both.",
)
@_as_run(*OF_ENDING)
@output(
    "--out",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write a file for each object, and a kustomization.yaml, into this folder, the server's own: "
    "what was written there before is replaced.",
)
@output("--json", "as_json", is_flag=True, help="Print one List as JSON, not YAML.")
@click.pass_context
def render(ctx: click.Context, /, **given: Any) -> int:
    """Print all that Kubernetes needs to run a server, as YAML for kubectl apply.

    That is a StatefulSet with its two Services, a PodDisruptionBudget, a NetworkPolicy, a
    ServiceAccount and a ConfigMap, for Kubernetes 1.29 to 1.34. The server is the command after
    --, or NAME in mooring.toml. With Redis, clients keep their sessions whichever replica they
    reach, and when replicas are replaced.

    Secrets are named and never written: they have to be in the namespace, and a value that looks
    like one is refused.
    """
    chosen = {name for name in given if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
    from mooring.cli.k8s.rendering import render_server  # noqa: PLC0415 - heavy from here on

    return render_server(given, chosen, ctx.obj, os.environ)
