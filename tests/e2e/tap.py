"""Run a stdio server and write down every line it is given, in FOLDER/PID: `python tap.py FOLDER COMMAND…`.

What arrives at the server is the proof that a message crossed, with the right id. Its output and its exit
status pass through untouched.
"""

import os
import subprocess
import sys
import threading


def main() -> None:
    server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
    lines = server.stdin
    assert lines is not None

    def copy() -> None:
        with open(f"{sys.argv[1]}/{os.getpid()}", "ab", buffering=0) as record:  # noqa: PTH123 - one system call a line
            try:
                while line := sys.stdin.buffer.readline():
                    record.write(line)
                    lines.write(line)
                    lines.flush()
                lines.close()
            except BrokenPipeError:
                pass  # the server is gone, and main is about to say how

    threading.Thread(target=copy, daemon=True).start()
    status = server.wait()
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
