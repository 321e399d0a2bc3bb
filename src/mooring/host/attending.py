"""`mooring connect` in the foreground: a connection that also tells `mooring connect status` how it is."""

import os
from dataclasses import replace

from mooring.host.connecting import Connection, ConnectOptions, run_connection
from mooring.host.connections import telling
from mooring.host.loops import run_with_signals
from mooring.host.stop import Stop

__all__ = ["main", "run"]


def main(options: ConnectOptions, *, drain_timeout_s: float) -> int:
    """Run until a signal says stop; returns the exit status."""
    return run_with_signals(lambda stop: run(replace(options, drain_timeout_s=drain_timeout_s), stop))


async def run(options: ConnectOptions, stop: Stop) -> int:
    """Stay connected until `stop`. Raises MooringError when the relay refuses for good."""
    connection = Connection(options)
    async with telling(options.places, f"command-{os.getpid()}", lambda: [connection.status]):
        return await run_connection(connection, stop)
