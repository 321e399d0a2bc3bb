"""A program that misbehaves as its arguments say, one after the other. Standard library only.

say:TEXT          a line on stdout           say-part:TEXT     without its end
err:TEXT          a line on stderr           err-part:TEXT     without its end
flood-stderr:MB   lines of 100 bytes         long-line:MB      one line on stdout, with its end
endless:MB        as long-line, no end       env:NAME          its value, as a line
cwd               as a line                  ignore-term       from now on
close-stdin       and live                   close-stdout      and live
read-line         one line, and no more      count             bytes of stdin up to its end, as a line
echo              every line, up to the end  linger            for ever, deaf to the end of stdin
suspend           SIGSTOP to itself          die:SIGNAL        by its own hand
exit:STATUS       at once                    wait:PATH         until that file exists
limit             its soft limit of descriptors, as a line

grandchild:OPTIONS   fork, and say `grandchild PID` when it runs. Comma-separated:
    group      in a process group of its own
    session    in a session of its own
    stubborn   ignores SIGTERM
    holding    keeps stdin, stdout and stderr
    unmarked   with another environment, without any marker
"""

import os
import resource
import signal
import sys
import time

CHUNK = b"x" * 65536


def write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def grandchild(options: list[str]) -> None:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_end)
        os.read(read_end, 1)
        os.close(read_end)
        write(1, b"grandchild %d\n" % pid)
        return
    if "group" in options:
        os.setpgid(0, 0)
    if "session" in options:
        os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "stubborn" in options else signal.SIG_DFL)
    if "holding" not in options:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
    if "unmarked" in options:
        os.set_inheritable(write_end, True)
        code = f"import os, signal\nos.write({write_end}, b'!')\nwhile True: signal.pause()"
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code], {"OTHER": "1"})
    os.write(write_end, b"!")
    linger()


def linger() -> None:
    while True:
        signal.pause()


def echo() -> None:
    while data := os.read(0, 65536):
        write(1, data)


def count() -> None:
    total = 0
    while data := os.read(0, 1 << 20):
        total += len(data)
    write(1, b"%d\n" % total)


def read_line() -> None:
    while os.read(0, 1) not in (b"\n", b""):
        pass


def flood(descriptor: int, megabytes: int, line: bytes) -> None:
    block = line * (1_000_000 // len(line))
    for _ in range(megabytes):
        write(descriptor, block)


def do(word: str) -> None:
    verb, _, rest = word.partition(":")
    match verb:
        case "say":
            write(1, rest.encode() + b"\n")
        case "say-part":
            write(1, rest.encode())
        case "err":
            write(2, rest.encode() + b"\n")
        case "err-part":
            write(2, rest.encode())
        case "flood-stderr":
            flood(2, int(rest), b"e" * 99 + b"\n")
        case "long-line":
            flood(1, int(rest), b"o" * 100)
            write(1, b"\n")
        case "endless":
            flood(1, int(rest), b"o" * 100)
        case "env":
            write(1, os.environ.get(rest, "(unset)").encode() + b"\n")
        case "cwd":
            write(1, os.readlink("/proc/self/cwd").encode() + b"\n")  # noqa: PTH115
        case "limit":
            write(1, b"%d\n" % resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        case "ignore-term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "close-stdin":
            os.close(0)
        case "close-stdout":
            os.close(1)
        case "read-line":
            read_line()
        case "count":
            count()
        case "echo":
            echo()
        case "linger":
            linger()
        case "suspend":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "die":
            if rest != "SIGKILL":
                signal.signal(signal.Signals[rest], signal.SIG_DFL)
            os.kill(os.getpid(), signal.Signals[rest])
        case "exit":
            os._exit(int(rest))
        case "wait":
            while not os.access(rest, os.F_OK):
                time.sleep(0.002)
        case "grandchild":
            grandchild(rest.split(","))
        case _:
            raise SystemExit(f"unknown: {word}")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        do(argument)
