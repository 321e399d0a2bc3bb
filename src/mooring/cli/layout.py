"""How commands look: options in sections, and a command line after `--`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["ServerCommand", "section"]

F = TypeVar("F", bound=Callable[..., Any])


class _Option(click.Option):
    section = "Options"


def section(title: str) -> Callable[..., Callable[[F], F]]:
    """A decorator like `click.option` whose options are shown under `title`."""

    class Option(_Option):
        section = title

    def option(*names: str, **attributes: Any) -> Callable[[F], F]:
        return click.option(*names, cls=Option, **attributes)

    return option


class ServerCommand(click.Command):
    """A command with a server's own command line after `--`, which nobody else interprets.

    Click alone would take the first word after `--` for a missing NAME, and an option of the
    server for one of ours where the `--` was forgotten.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Ours up to the first `--`; the rest is left as it is, in `ctx.obj`."""
        where = args.index("--") if "--" in args else len(args)
        ctx.obj = tuple(args[where + 1 :])
        try:
            return super().parse_args(ctx, args[:where])
        except click.UsageError as error:
            if where < len(args) or isinstance(error, click.MissingParameter):
                raise
            message = f"{error.format_message()} (a '--' belongs before the server's command)"
            raise click.UsageError(message, ctx) from error

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The usage line, with the part that click does not know."""
        return ["--foreground", "NAME", "[OPTIONS]", "--", "COMMAND", "[ARGS]..."]

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
