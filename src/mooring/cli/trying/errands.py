"""What is asked of a server, and what is shown of its answers."""

import logging
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from mooring.cli.reach import reach
from mooring.cli.terminal.words import debugging, printable, show_error
from mooring.cli.trying import contents, pages
from mooring.cli.trying.arguments import BadArguments, convert, convert_texts
from mooring.cli.trying.elicitation import Elicitation
from mooring.cli.trying.paper import Paper, indented
from mooring.cli.trying.schemas import Json
from mooring.cli.trying.sideline import LogsAside, Sideline
from mooring.cli.values import Word
from mooring.errors import EXIT_STATUS, ServerFailed, Unavailable, UserError
from mooring.host import visiting
from mooring.host.loops import run_with_signals
from mooring.host.stop import Stop
from mooring.host.visiting import OPEN_S, VisitOptions
from mooring.remote.visitor import Refused, Visitor
from mooring.wire.verdicts import FOR_PEOPLE

__all__ = [
    "PROMPTS",
    "RESOURCES",
    "TOOLS",
    "Asked",
    "Kind",
    "Visit",
    "call_tool",
    "carry_out",
    "get_prompt",
    "names_of",
    "read_resource",
    "running_url",
    "show",
    "show_tool",
    "url_of",
]

log = logging.getLogger("mooring.cli")


class Kind(NamedTuple):
    """What servers have."""

    plural: str
    """In an answer too."""
    method: str
    key: str
    """What one is named by."""
    offer: str
    """The capability of a server that has some."""


TOOLS = Kind("tools", "tools/list", "name", "tools")
RESOURCES = Kind("resources", "resources/list", "uri", "resources")
TEMPLATES = Kind("resourceTemplates", "resources/templates/list", "uriTemplate", "resources")
PROMPTS = Kind("prompts", "prompts/list", "name", "prompts")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the options of every such command say."""

    server: str
    """As it was named."""
    visit: VisitOptions
    roots: tuple[Path, ...] = ()
    timeout_s: float | None = None
    as_json: bool = False
    raw: bool = False
    verbose: bool = False
    folder: Path = field(default_factory=Path)

    @property
    def answer_s(self) -> float:
        """For answers to what is no call."""
        return OPEN_S if self.timeout_s is None else min(self.timeout_s, OPEN_S)


class Visit(NamedTuple):
    """What an errand has in hand."""

    visitor: Visitor
    paper: Paper
    asked: Asked


class Attendant:
    """Is with the visitor: shows what comes meanwhile, and answers questions."""

    def __init__(self, asked: Asked, sideline: Sideline) -> None:
        self._sideline = sideline
        self._roots = asked.roots
        self._elicitation = Elicitation(sideline, asked.server)
        self.progressed = sideline.progress

    def logged(self, note: Json) -> None:
        """Level, logger and whatever was logged."""
        logger, data = note.get("logger"), note.get("data")
        text = data if isinstance(data, str) else indented(data, None)
        self._sideline.log(str(note.get("level", "info")), f"{logger}: {text}" if logger else text)

    def answers(self, method: str) -> Callable[[Json], Awaitable[Json]] | None:
        """Only what was declared."""
        if method == "elicitation/create":
            return self._elicitation.answer
        return self._list_roots if method == "roots/list" and self._roots else None

    async def _list_roots(self, _params: Json) -> Json:
        return {"roots": [{"uri": root.as_uri(), "name": root.name or str(root)} for root in self._roots]}


def url_of(server: str) -> str:
    """Where a server of the daemon is, which is started if it does not run; a URL is one already."""
    return server if ":" in server else running_url(reach(start=True).ask("GET", f"/servers/{server}"))


def running_url(known: Json) -> str:
    """Of a server, as the daemon knows it. Raises Unavailable if it is not to run."""
    if known["desired"] == "stopped":
        raise Unavailable(
            f"{known['name']} is stopped", code="stopped", hint=f"mooring start {known['name']}"
        )
    return str(known["url"])


def carry_out(asked: Asked, errand: Callable[[Visit], Awaitable[int]], item: str = "") -> int:
    """Visit the server for an errand; returns the exit status."""
    sideline = Sideline(verbose=asked.verbose)
    server = "remote" if ":" in asked.server else asked.server
    paper = Paper(f"{server}-{item}" if item else server, asked.folder, sideline.clear)
    level = logging.DEBUG if debugging(os.environ) else logging.INFO if asked.verbose else logging.WARNING

    async def visit(visitor: Visitor) -> int:
        await visitor.hear_logs("debug" if asked.verbose else "info", timeout_s=asked.answer_s)
        try:
            return await errand(Visit(visitor, paper, asked))
        finally:
            sideline.clear()

    async def run(stop: Stop) -> int:
        tap = paper.wire if asked.raw else None
        async with sideline.waiting_for(asked.server):
            return await visiting.run(asked.visit, Attendant(asked, sideline), visit, stop, tap)

    with LogsAside(sideline).listening(level):
        try:
            status = run_with_signals(run)
            if status > 128:
                sideline.say("interrupted; what was under way is cancelled")
            return status
        except Refused as error:
            if asked.as_json:
                paper.json({"error": error.error})
            return _tell(error, asked)


def _tell(error: Refused, asked: Asked) -> int:
    """The server's error for people, with all that it says; returns the exit status."""
    if debugging(os.environ):
        traceback.print_exception(error)
    message, hint = in_words(error, asked)
    number = f" (error {error.number})" if error.number is not None else ""
    show_error(f"{message}{number}", hint)
    data = error.error.get("data")
    if data is not None and not (asked.as_json or asked.raw):
        sys.stderr.writelines(f"{printable(line)}\n" for line in _data_lines(data))
    return EXIT_STATUS[ServerFailed]


def in_words(error: Refused, asked: Asked) -> tuple[str, str]:
    """What the server, or Mooring in its place, says; and what helps here."""
    if ":" not in asked.server:
        more = f"mooring logs {asked.server} tells more" if error.reason else ""
        if error.reason == "unauthorized":
            more = f"if it asks for a login: mooring login {asked.server}; {more}"
        return error.message, more
    if error.reason != "unauthorized":
        return error.message, ""
    # The words are for all commands that visit servers. Those in brackets name options of others.
    message = error.message.partition(": give it a token (mooring run")[0]
    if asked.visit.token_file is not None:
        return message, f"is the token in {asked.visit.token_file} the right one, and still valid?"
    return message, "--token-file PATH sends the token in a file, --header-env NAME=VARIABLE any other header"


def _data_lines(data: Any) -> list[str]:
    """What else an error says, beside its message."""
    if not isinstance(data, dict):
        return [f"data: {indented(data, None)}"]
    if data.get("reason") in FOR_PEOPLE:  # to do it again helps nobody, though nothing was done
        data = {key: value for key, value in data.items() if key != "retryable"}
    return [f"{key}: {text if isinstance(text, str) else indented(text, None)}" for key, text in data.items()]


# Looking ---------------------------------------------------------------------------------------


async def names_of(visitor: Visitor, kind: Kind, timeout_s: float) -> list[tuple[str, str]]:
    """What a shell completes: names, and what is said of them."""
    items, _ = await visitor.list_all(kind.method, kind.plural, timeout_s=timeout_s)
    return [
        (str(item.get(kind.key, "")), str(item.get("description") or item.get("title") or ""))
        for item in items
    ]


async def _items(visit: Visit, kind: Kind) -> list[Json]:
    """Every one that the server lists."""
    if not visit.visitor.offers(kind.offer):
        return []
    items, whole = await visit.visitor.list_all(kind.method, kind.plural, timeout_s=visit.asked.answer_s)
    if not whole:
        log.warning("the list does not end; this is the beginning of it")
    return items


async def show(visit: Visit, kind: Kind) -> int:
    """The list."""
    _, paper, asked = visit
    items = await _items(visit, kind)
    templates = await _templates(visit) if kind is RESOURCES else []
    if asked.as_json:
        paper.json({RESOURCES.plural: items, TEMPLATES.plural: templates} if kind is RESOURCES else items)
    elif not asked.raw:
        told = [_row(item, kind) for item in items] + [_row(item, TEMPLATES) for item in templates]
        paper.lines(pages.listed(told, paper.width) or [f"{asked.server} has no {kind.plural}."])
    return 0


async def show_tool(visit: Visit, name: str) -> int:
    """All that is worth knowing of one tool."""
    _, paper, asked = visit
    tool = await _named(visit, TOOLS, name)
    if asked.as_json:
        paper.json(tool)
    elif not asked.raw:
        paper.lines(pages.tool_page(tool, asked.server, paper.width))
    return 0


async def _templates(visit: Visit) -> list[Json]:
    try:
        return await _items(visit, TEMPLATES)
    except Refused:
        return []  # not every server has the method


def _row(item: Json, kind: Kind) -> tuple[str, str]:
    name = item.get("name") if kind.key != "name" else ""
    return str(item.get(kind.key, "")), str(item.get("description") or item.get("title") or name or "")


async def _named(visit: Visit, kind: Kind, name: str) -> Json:
    """The one of that name. Raises UserError."""
    items, server = await _items(visit, kind), visit.asked.server
    for item in items:
        if item.get(kind.key) == name:
            return item
    near = get_close_matches(name, [str(item.get(kind.key)) for item in items], 1)
    hint = f"did you mean {near[0]}? " if near else ""
    one = kind.plural.removesuffix("s")
    raise UserError(
        f"{server} has no {one} {name!r}",
        code=f"unknown_{one}",
        hint=f"{hint}mooring {kind.plural} {server} lists all",
    )


# Trying ----------------------------------------------------------------------------------------


async def call_tool(visit: Visit, name: str, words: list[Word], given: Json | None) -> int:
    """Call a tool; `given` arguments are sent as they are."""
    arguments = given if given is not None else await _tool_arguments(visit, name, words)
    params = {"name": name, "arguments": arguments}
    result = await visit.visitor.ask("tools/call", params, timeout_s=visit.asked.timeout_s)
    _print(visit, result, contents.of_call(result))
    if result.get("isError") is True:
        raise ServerFailed(f"the tool {name} says that it failed", code="tool_error")
    return 0


async def _tool_arguments(visit: Visit, name: str, words: list[Word]) -> Json:
    schema = (await _named(visit, TOOLS, name)).get("inputSchema")
    known: Json = schema if isinstance(schema, dict) else {}
    try:
        return convert(words, known)
    except BadArguments as error:
        hint = f"mooring tools {visit.asked.server} {name} tells more; --json '{{…}}' sends anything"
        raise _explained(error, name, pages.parameters(known, None), hint) from None


async def read_resource(visit: Visit, uri: str) -> int:
    """Read a resource."""
    result = await visit.visitor.ask("resources/read", {"uri": uri}, timeout_s=visit.asked.timeout_s)
    _print(visit, result, contents.of_resource(result))
    return 0


async def get_prompt(visit: Visit, name: str, words: list[Word]) -> int:
    """Get a prompt."""
    prompt = await _named(visit, PROMPTS, name)
    known = prompt.get("arguments")
    arguments = [one for one in known if isinstance(one, dict)] if isinstance(known, list) else []
    try:
        params: Json = {"name": name, "arguments": convert_texts(words, arguments)}
    except BadArguments as error:
        raise _explained(error, name, pages.prompt_parameters(arguments, None)) from None
    result = await visit.visitor.ask("prompts/get", params, timeout_s=visit.asked.timeout_s)
    _print(visit, result, contents.of_prompt(result))
    return 0


def _explained(error: BadArguments, name: str, parameters: list[str], hint: str = "") -> UserError:
    """With the parameters, which the error alone does not tell."""
    told = [f"{name} takes:", *parameters] if parameters else [f"{name} takes no parameters."]
    sys.stderr.writelines(f"{printable(line)}\n" for line in told)
    return UserError(str(error), code="bad_arguments", hint=hint)


def _print(visit: Visit, result: Json, pieces: list[contents.Piece]) -> None:
    if visit.asked.as_json:
        visit.paper.json(result)
    elif not visit.asked.raw:
        visit.paper.pieces(pieces)
