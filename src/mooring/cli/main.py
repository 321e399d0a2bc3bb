"""`mooring`: its commands, and how it ends.

Importing this imports click and little else: `mooring --help` must feel instant.
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from mooring import __version__
from mooring.cli.commands import COMMANDS
from mooring.cli.terminal.layout import SectionedGroup
from mooring.errors import MooringError, exit_status

__all__ = ["cli", "main"]

EXAMPLES = """\
\b
Examples:
  mooring run time -- uvx mcp-server-time
  mooring run notes --from npx:@modelcontextprotocol/server-memory
  mooring up -f mooring.toml
  mooring ls
  mooring client add cursor
  mooring tools time
  mooring stdio time
  mooring run --help
  eval "$(mooring completion bash)"

\b
Environment:
  MOORING_PORT=N           where the daemon listens; 4670 if it is not set
  MOORING_STATE_DIR=DIR    where it keeps its state
  MOORING_RELAY_TOKEN=T    the token of mooring connect
  MOORING_RELAY_STATE=DIR  where mooring relay keeps its state
  MOORING_GRACE_PERIOD=N   seconds from SIGTERM to SIGKILL, for mooring run
  MOORING_DEBUG=1          show debug messages, and tracebacks with errors
  NO_COLOR=1               no colours
"""

INTERRUPTED = 130  # 128 + SIGINT, as shells count


@click.group(
    cls=SectionedGroup,
    sections=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXAMPLES,
)
@click.version_option(__version__, message="mooring %(version)s")
def cli() -> None:
    """Run any MCP server behind one endpoint that never loses a call."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end with its exit status; every error is told here."""
    try:
        outcome = cli.main(arguments, prog_name="mooring", standalone_mode=False)
        status = outcome if isinstance(outcome, int) else 0
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        status = error.exit_code
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "mooring"
        status = _tell(error, _sentence(error), f"see {where} --help", error.exit_code)
    except MooringError as error:
        status = _tell(error, error.message, error.hint, exit_status(error))
    except click.Abort:
        status = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Nothing more can be flushed there at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:  # a full disk under our stdout, say: nobody's bug
        status = _tell(error, str(error), "", 1)
    except Exception as error:  # a bug of ours is still told in one line
        hint = "this is a bug in Mooring; MOORING_DEBUG=1 shows where"
        status = _tell(error, f"{type(error).__name__}: {error}", hint, 1)
    sys.exit(status)


def _sentence(error: click.ClickException) -> str:
    """What click says, on one line; about a value: which option's, and what is wrong with it."""
    if isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter):
        is_seen = isinstance(error.param, click.Option) and not error.param.hidden
        option = f"{error.param.opts[0]}: " if error.param is not None and is_seen else ""
        return f"{option}{' '.join(error.message.split())}"
    return " ".join(error.format_message().split())


def _tell(error: Exception, message: str, hint: str, status: int) -> int:
    from mooring.cli.terminal.words import debugging, show_error  # noqa: PLC0415 - for errors

    if debugging(os.environ):
        import traceback  # noqa: PLC0415

        traceback.print_exception(error)
    show_error(message, hint)
    return status
