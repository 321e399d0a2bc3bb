"""`python -m mooring.demo`: the demo server on stdin and stdout."""

import os
import sys

from mooring import __version__
from mooring.demo.server import serve

HELP = """\
usage: python -m mooring.demo [--help] [--version]

A small MCP server on stdin and stdout, one JSON-RPC message a line. It ends at the end of stdin.

tools:
  echo text            the same text
  add a b              the sum
  sleep seconds steps  waits, with progress; can be cancelled
  crash code signal    ends the process; after_ms: later; answer: not before this call was answered
  noisy lines stream   writes junk to stdout, stderr or both, then answers
  big bytes            that much text
  ask message          asks the user (elicitation)
  sample prompt        asks the model (sampling)
  roots                asks for the roots
  counter              counts its calls in this process; tells the pid
  touch text           changes the resource demo://note
  log level message    sends a log message
  toggle               adds or removes the tool `extra`

prompts: greet         resources: demo://note demo://counter demo://time demo://echo/{text}
"""


def main(arguments: list[str]) -> int:
    """Serve until stdin ends; or say what this is."""
    if arguments in (["--help"], ["-h"]):
        sys.stdout.write(HELP)
        return 0
    if arguments == ["--version"]:
        sys.stdout.write(f"mooring-demo {__version__}\n")
        return 0
    if arguments:
        sys.stderr.write(f"error: unknown arguments: {' '.join(arguments)}\nhint: see --help\n")
        return 2
    if os.getpid() == 1:
        # The kernel ignores a signal's default action for pid 1 of a container.
        import signal  # noqa: PLC0415 - a millisecond that nobody else needs to spend

        signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    try:
        serve()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0  # nobody reads any more: as good as the end of stdin
    return 0


if __name__ == "__main__":
    # Nothing of ours is left in sys.stdout's buffer while serving; after --help there may be.
    status = main(sys.argv[1:])
    sys.stdout.flush()
    # Skipping the interpreter's teardown makes the end of a session a few milliseconds faster.
    os._exit(status)
