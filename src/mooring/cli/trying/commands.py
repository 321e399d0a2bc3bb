"""`mooring tools`, `resources`, `prompts` and `call`: argv. What they do is in `errands`, loaded by need."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mooring.cli.names import KNOWN_SERVER
from mooring.cli.terminal.layout import SectionedCommand, section
from mooring.cli.values import Parsed, parse_limit, parse_word
from mooring.cli.who import identity, who_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mooring.cli.trying.errands import Visit

__all__ = ["call", "prompts", "resources", "tools"]

F = TypeVar("F", bound=Callable[..., Any])

talk = section("Output")
conduct = section("The visit")
DIRECTORY = click.Path(exists=True, file_okay=False)
EXIT_STATUS = """
\b
Exit status:
  0    done
  1    the tool failed, or the server: an error, or not to be reached
  2    wrong usage: no such server or tool, an argument that does not fit
  130  interrupted; the call was cancelled at the server
"""


def examples(*lines: str) -> str:
    """What stands at the end of a help page."""
    return "\b\nExamples:\n" + "".join(f"  {line}\n" for line in lines) + EXIT_STATUS


class Known(click.ParamType[str]):
    """The name of something that the server has; completed with what it says it has."""

    def __init__(self, what: str) -> None:
        self.name = what.removesuffix("s")
        self._what = what

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Those that begin so; none if the server does not tell them soon."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - heavy; only the shell asks

        from mooring.cli.terminal.words import printable  # noqa: PLC0415
        from mooring.cli.trying import completing  # noqa: PLC0415

        return [
            CompletionItem(name, help=" ".join(printable(about).split())[:60] or None)
            for name, about in completing.names(ctx.params, self._what)
            if name.startswith(incomplete) and name.isprintable()
        ]


def server(command: F) -> F:
    """Whom to visit."""
    return click.argument("server", type=KNOWN_SERVER, metavar="NAME|URL")(command)


def words(command: F) -> F:
    """Arguments."""
    kind = Parsed("key=value", parse_word)
    return click.argument("words", nargs=-1, type=kind, metavar="[KEY=VALUE]...")(command)


def common(command: F) -> F:
    """What all of them take."""
    for option in reversed(
        (
            talk(
                "--json", "as_json", is_flag=True, help="Print what the server answers as JSON, for programs."
            ),
            talk(
                "--raw",
                is_flag=True,
                help="Print the wire instead: each JSON-RPC message on a line, --> sent and <-- received.",
            ),
            talk("-v", "--verbose", is_flag=True, help="Tell more: debug messages, each note of progress."),
            conduct(
                "--timeout",
                type=Parsed("time|none", parse_limit),
                default="none",
                show_default=True,
                help="Give the server so long, then cancel the call. While you are asked, no time runs.",
            ),
            conduct(
                "--root",
                "roots",
                multiple=True,
                type=DIRECTORY,
                metavar="DIR",
                help="Offer a directory to the server as a root; . is this one. Repeatable.",
            ),
        )
    ):
        command = option(command)
    return who_options(command)


saving = talk(
    "--save",
    "folder",
    type=DIRECTORY,
    metavar="DIR",
    help="Save images, sounds and other bytes here, not in the current directory.",
)


def _carry_out(given: dict[str, Any], errand: "Callable[[Visit], Awaitable[int]]", item: str = "") -> int:
    """With everything heavy."""
    if given["as_json"] and given["raw"]:
        raise click.UsageError("--json and --raw are two ways to print; give one of them")
    from mooring.cli.trying import errands  # noqa: PLC0415
    from mooring.host.visiting import OPEN_S, VisitOptions  # noqa: PLC0415

    roots = tuple(Path(root).resolve() for root in given["roots"])
    capabilities: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
    if roots:
        capabilities["roots"] = {}
    timeout_s = given["timeout"]
    asked = errands.Asked(
        server=given["server"],
        visit=VisitOptions(
            url=errands.url_of(given["server"]),
            capabilities=capabilities,
            open_timeout_s=OPEN_S if timeout_s is None else min(timeout_s, OPEN_S),
            **identity(given),
        ),
        roots=roots,
        timeout_s=timeout_s,
        as_json=given["as_json"],
        raw=given["raw"],
        verbose=given["verbose"],
        folder=Path(given.get("folder") or "."),
    )
    return errands.carry_out(asked, errand, item)


@click.command(
    cls=SectionedCommand,
    short_help="Show the tools of a server.",
    epilog=examples(
        "mooring tools time", "mooring tools time convert_time", "mooring tools https://mcp.example/mcp"
    ),
)
@server
@click.argument("tool", type=Known("tools"), required=False)
@common
def tools(tool: str | None, **given: Any) -> int:
    """Show the tools of a server, or one of them with its parameters.

    NAME is that of a server that `mooring ls` lists; the daemon is started if it does not run. URL is
    that of any MCP server that speaks Streamable HTTP.
    """
    from mooring.cli.trying import errands  # noqa: PLC0415

    if tool is None:
        return _carry_out(given, lambda visit: errands.show(visit, errands.TOOLS))
    return _carry_out(given, lambda visit: errands.show_tool(visit, tool))


@click.command(
    cls=SectionedCommand,
    short_help="Show the resources of a server, or read one.",
    epilog=examples("mooring resources demo", "mooring resources demo demo://note"),
)
@server
@click.argument("uri", type=Known("resources"), required=False)
@saving
@common
def resources(uri: str | None, **given: Any) -> int:
    """Show the resources of a server; with a URI, read it.

    What is no text is saved to a file, never over one that is there.
    """
    from mooring.cli.trying import errands  # noqa: PLC0415

    if uri is None:
        return _carry_out(given, lambda visit: errands.show(visit, errands.RESOURCES))
    return _carry_out(given, lambda visit: errands.read_resource(visit, uri))


@click.command(
    cls=SectionedCommand,
    short_help="Show the prompts of a server, or get one.",
    epilog=examples("mooring prompts demo", "mooring prompts demo greet name=Ada tone=nautical"),
)
@server
@click.argument("prompt", type=Known("prompts"), required=False)
@words
@saving
@common
def prompts(prompt: str | None, words: list[Any], **given: Any) -> int:
    """Show the prompts of a server; with a PROMPT and its arguments, get it."""
    from mooring.cli.trying import errands  # noqa: PLC0415

    if prompt is None:
        return _carry_out(given, lambda visit: errands.show(visit, errands.PROMPTS))
    return _carry_out(given, lambda visit: errands.get_prompt(visit, prompt, list(words)), prompt)


class CallCommand(SectionedCommand):
    """A command whose `--json '{…}'` gives arguments, and whose `--json` alone says how to print."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Click knows no option that has a value only if one follows."""
        ours: list[str] = []
        for word in args:
            if ours[-1:] == ["--json"] and word.lstrip().startswith("{"):
                ours[-1] = f"--arguments={word}"
            elif word.startswith("--json="):
                ours.append(f"--arguments={word.removeprefix('--json=')}")
            else:
                ours.append(word)
        return super().parse_args(ctx, ours)


def _parse_object(text: str) -> dict[str, Any]:
    import json  # noqa: PLC0415 - only where it is used

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"what follows --json is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("what follows --json must be an object: '{…}'")
    return value


@click.command(
    cls=CallCommand,
    short_help="Call a tool of a server.",
    epilog=examples(
        "mooring call demo add a=1 b=2",
        'mooring call demo add --json \'{"a": 1, "b": 2}\'',
        "mooring call demo counter --json",
        "mooring call demo sleep seconds=5 steps=5 --timeout 2s",
    ),
)
@server
@click.argument("tool", type=Known("tools"))
@words
@talk("--arguments", type=Parsed("object", _parse_object), hidden=True)
@saving
@common
def call(tool: str, words: list[Any], arguments: dict[str, Any] | None, **given: Any) -> int:
    """Call a tool of a server, and print what it answers.

    KEY=VALUE is converted as the tool's schema says: numbers, booleans, arrays and objects as JSON, text
    as it is. KEY:=JSON is JSON in any case. Instead of them --json '{…}' gives all arguments, which are
    sent as they are, without a look at the schema; --json alone prints the result as JSON.

    While the server works, its messages are shown on stderr, and its progress on a terminal or with -v;
    you are asked what it asks. Ctrl-C cancels the call.
    """
    if arguments is not None and words:
        raise click.UsageError("give the arguments as KEY=VALUE or with --json '{…}', not both")
    from mooring.cli.trying import errands  # noqa: PLC0415

    return _carry_out(given, lambda visit: errands.call_tool(visit, tool, list(words), arguments), tool)
