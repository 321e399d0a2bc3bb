"""The load generator as a value: aim it, then have one window after another."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from bench.measuring import Unable
from bench.processes import cpu_s
from bench.targets import Endpoint

__all__ = ["Window", "generator"]


class Window(msgspec.Struct, frozen=True):
    """What one window of load found."""

    calls: int
    errors: int
    seconds: float
    rate: float
    min_us: float
    p50_us: float
    p99_us: float
    events: int
    cpu_share: float
    """Of one core, used by the generator itself."""
    complaint: str
    """The first wrong answer."""
    proxy_cpu_s: float = 0.0
    """Used by the proxy and its helpers meanwhile, without the servers."""


@contextmanager
def generator(endpoint: Endpoint, *options: str) -> Iterator[Callable[[], Window]]:
    """A generator with its sessions open. Each call of what it yields is one window."""
    argv = endpoint.load_argv("-w", *options)
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin and process.stdout and process.stderr
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr

    def read() -> bytes:
        # It ends by itself when nothing happens for long.
        if line := stdout.readline():
            return line
        said = stderr.read().decode(errors="replace").strip().splitlines()
        raise Unable(said[-1] if said else f"the load generator ended with status {process.wait()}")

    def window() -> Window:
        proxy = endpoint.own_processes()
        before_s = cpu_s(proxy)
        with suppress(BrokenPipeError):  # it has ended; what it said last is read next
            stdin.write(b"\n")
            stdin.flush()
        found = msgspec.json.decode(read(), type=Window)
        if found.errors:
            raise Unable(found.complaint)
        return msgspec.structs.replace(found, proxy_cpu_s=cpu_s(proxy) - before_s)

    try:
        read()
        yield window
    finally:
        # Its sessions end with the proxy, which nobody measures after this.
        process.kill()
        process.wait()
        for pipe in (stdin, stdout, stderr):
            with suppress(BrokenPipeError):
                pipe.close()
