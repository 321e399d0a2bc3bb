"""Who we are to a server at a URL: options that several commands have. No secret stands on a command line."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mooring.cli.terminal.layout import section
from mooring.cli.values import Parsed, parse_header_source

__all__ = ["identity", "who_options"]

F = TypeVar("F", bound=Callable[..., Any])
READABLE_FILE = click.Path(exists=True, dir_okay=False, readable=True)

who = section("Who we are to the server")


def who_options(command: F) -> F:
    """A token, headers, and whom we trust."""
    token = who(
        "--token-file",
        type=READABLE_FILE,
        metavar="PATH",
        help="Send the token in this file as a bearer token. It is read again when the server refuses it.",
    )
    header = who(
        "--header-env",
        multiple=True,
        type=Parsed("header=variable", parse_header_source),
        metavar="NAME=VARIABLE",
        help="Send the header NAME with the value of an environment variable. Repeatable.",
    )
    authority = who(
        "--ca-file",
        type=READABLE_FILE,
        metavar="PATH",
        help="Trust the authorities in this file (PEM), not those of the system.",
    )
    return token(header(authority(command)))


def identity(given: dict[str, Any]) -> dict[str, Any]:
    """The same as `headers`, `token_file` and `ca_file`. Raises UserError."""
    from mooring.host.credentials import headers_from  # noqa: PLC0415 - heavy

    return {
        "headers": headers_from(dict(given["header_env"]), os.environ),
        "token_file": Path(given["token_file"]) if given["token_file"] else None,
        "ca_file": Path(given["ca_file"]) if given["ca_file"] else None,
    }
