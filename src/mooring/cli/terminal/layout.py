"""How commands look: options in sections, and a command line after `--`."""

import shlex
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import click

from mooring.errors import UserError

__all__ = [
    "Listed",
    "ParentCommand",
    "SectionedCommand",
    "SectionedGroup",
    "ServerCommand",
    "log_options",
    "section",
]

F = TypeVar("F", bound=Callable[..., Any])

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
"""Where click must not begin a new line; an ordinary space in what is printed."""


class _Option(click.Option):
    section = "Options"

    def get_help_extra(self, ctx: click.Context) -> Any:
        """A default in words of ours stands as it is; click would put it into brackets."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.show_default, str):
            extra["default"] = self.show_default
        return extra

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """What stands beside the option; `[default: …]` stays on one line."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        text, start, default = record[1].partition("[default:")
        return record[0], text + (start + default).replace(" ", NO_BREAK_SPACE)


def section(title: str) -> Callable[..., Callable[[F], F]]:
    """A decorator like `click.option` whose options are shown under `title`."""

    class Option(_Option):
        section = title

    def option(*names: str, **attributes: Any) -> Callable[[F], F]:
        return click.option(*names, cls=Option, **attributes)

    return option


class Listed(NamedTuple):
    """A command as the help of its group shows it: nothing of it is imported for that."""

    name: str
    where: str
    """`module:attribute`."""
    help: str


class _Commands(UserDict[str, click.Command]):
    """Commands by name, each imported when it is asked for: one is run, and there are many."""

    def __init__(self, listed: Iterable[Listed]) -> None:
        super().__init__()
        self._listed = {command.name: command for command in listed}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self.data:
            module, _, attribute = self._listed[name].where.partition(":")
            self.data[name] = getattr(import_module(module), attribute)
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in self._listed

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


class SectionedGroup(click.Group):
    """A group whose help shows its commands under titles, in the order of `sections`."""

    def __init__(self, *, sections: Mapping[str, Sequence[Listed]], **attributes: Any) -> None:
        commands = _Commands(listed for section in sections.values() for listed in section)
        super().__init__(commands=commands, **attributes)
        self._sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In that order."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One list for each title; their columns are in line."""
        width = max(map(len, self.commands))
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), help) for name, _, help in commands])


def log_options(command: F) -> F:
    """How the logs of a long-running command look, which go to stderr."""
    talk = section("Output")
    levels = click.Choice(["debug", "info", "warning", "error"], case_sensitive=False)
    level = talk(
        "--log-level",
        type=levels,
        metavar="LEVEL",
        default="info",
        show_default=True,
        help="Least important messages to show: debug, info, warning or error. "
        "MOORING_DEBUG=1 shows all, and tracebacks.",
    )
    style = talk(
        "--log-format",
        type=click.Choice(["text", "json"]),
        metavar="FORMAT",
        default="text",
        show_default=True,
        help="Logs, on stderr, are text or json.",
    )
    return style(level(command))


class SectionedCommand(click.Command):
    """A command whose options stand in sections."""

    def get_help(self, ctx: click.Context) -> str:
        """The help page."""
        return super().get_help(ctx).replace(NO_BREAK_SPACE, " ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options by section, in the order of declaration."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "section", "Other"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class ParentCommand(SectionedCommand, click.Group):
    """A command with commands below it: its options in sections, then those."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Both."""
        SectionedCommand.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


class ServerCommand(SectionedCommand):
    """A command with a server's own command line after `--`, which nobody else interprets.

    Click alone would take the first word after `--` for a missing NAME, and an option of the
    server for one of ours where the `--` was forgotten.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Ours up to the first `--`; the rest is left as it is, in `ctx.obj`."""
        where = args.index("--") if "--" in args else len(args)
        ours, command = args[:where], args[where + 1 :]
        ctx.obj = tuple(command)
        try:
            return super().parse_args(ctx, _with_values(ours))
        except click.MissingParameter as error:
            if not command:
                raise
            raise _corrected(ctx, "the server has no name", [*ours, "NAME"], command) from error
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            start = self._forgotten(ctx, ours) if where == len(args) else None
            if start is None:
                raise
            message = "there is no -- before the server's command"
            raise _corrected(ctx, message, ours[:start], ours[start:]) from error

    def _forgotten(self, ctx: click.Context, words: list[str]) -> int | None:
        """Where the `--` belongs: before the second word that is no option, nor the value of one.

        None if there is no such word, or if something else is wrong before it.
        """
        flags = {
            name: isinstance(parameter, click.Option) and parameter.is_flag
            for parameter in self.get_params(ctx)
            for name in parameter.opts
        }
        at = named = 0
        while at < len(words):
            word = words[at]
            if not word.startswith("-"):
                if named:
                    return at
                named = 1
            elif (option := word.partition("=")[0]) not in flags:
                return None
            elif not flags[option] and "=" not in word:
                at += 1
            at += 1
        return None

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with the part that click does not know."""
        return ["NAME", "[OPTIONS]", "--", "COMMAND", "[ARGS]..."]


def _with_values(words: list[str]) -> list[str]:
    """`--shared` alone means one; click would take the next word, the NAME perhaps, for its value."""
    following = [*words, ""][1:]
    return [
        f"{word}=1" if word == "--shared" and not after.isdecimal() else word
        for word, after in zip(words, following, strict=True)
    ]


def _corrected(ctx: click.Context, message: str, ours: list[str], command: list[str]) -> UserError:
    """An error whose hint is the command line as it was meant."""
    words = [*_without_values(ours), "--", *command]
    return UserError(message, code="bad_usage", hint=f"write: {ctx.command_path} {shlex.join(words)}")


def _without_values(words: list[str]) -> list[str]:
    """Options as they were given, but for the values of `--env`: these may be secrets."""
    shown = list(words)
    for at, word in enumerate(words):
        if word.startswith("--env=") and word.count("=") > 1:
            shown[at] = f"--env={word.split('=')[1]}=…"
        elif at and words[at - 1] == "--env":
            shown[at] = f"{word.partition('=')[0]}=…"
    return shown
