"""Does something with the registry, and dies before the n-th thing that it does to the disk, for n = 1, 2, …

    python killed_registry.py DIRECTORY OPERATION CLIENT

Each time in a process of its own, and in DIRECTORY as it was in the beginning (the ledger has absolute paths,
so it cannot be elsewhere). Prints n whenever one was killed, and goes on when it is given a line; prints
`done` when one was not.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.clients import exchanging
from mooring.clients.outcomes import Outcome
from tests.client_home import ClientHome, target

MOST = 500
ACTS = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.setxattr",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

Operation = Callable[[ClientHome, str], list[Outcome]]
OPERATIONS: dict[str, Operation] = {
    "add": lambda home, client: home.registry().add(home.site(client), [target(), target("mail")]),
    "force": lambda home, client: home.registry().add(home.site(client), [target("other")], force=True),
    "remove": lambda home, client: home.registry().remove(home.site(client), None),
    "replace": lambda home, client: home.registry().replace(home.site(client), [("other", target("web"))]),
    "take_out": lambda home, _: home.registry().take_out("notes", "it failed"),
    "put_back": lambda home, _: home.registry().put_back(target(port=5000)),
    "renew": lambda home, _: home.registry().renew(target(port=5000)),
    "forget": lambda home, _: home.registry().forget("notes"),
    "undo": lambda home, client: home.registry().undo(client),
}


def die_before_act(number: int) -> None:
    acts = 0

    def act() -> None:
        nonlocal acts
        acts += 1
        if acts == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ACTS or (event == "open" and arguments[2] & WRITING):
            act()

    rename = exchanging._rename

    def renamed(*arguments: Any) -> None:
        act()
        rename(*arguments)

    def fsync(_descriptor: object) -> None:
        act()  # kill -9 does not need more

    exchanging._rename = renamed  # type: ignore[assignment]
    os.fsync = fsync  # type: ignore[assignment]
    sys.addaudithook(hook)


def main() -> None:
    folder, name, client = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    beginning = folder.with_name(f"{folder.name}-beginning")
    shutil.copytree(folder, beginning)
    for number in range(1, MOST):
        shutil.rmtree(folder)
        shutil.copytree(beginning, folder)
        home = ClientHome.at(folder)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                die_before_act(number)
                OPERATIONS[name](home, client)
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            print("done" if status == 0 else f"failed: {status}", flush=True)
            return
        print(number, flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
