"""Puts servers into clients' files and takes them out again, beside others who do the same.

    python busy_registry.py DIRECTORY NAME ROUNDS

The name is its own. In the end one server of that name stays. Prints what was refused.
"""

import sys
from pathlib import Path

from mooring.clients.outcomes import Change
from tests.client_home import ClientHome, target

CLIENTS = ("cursor", "codex")


def main() -> None:
    home, name, rounds = ClientHome.at(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
    outcomes = []
    for number in range(rounds):
        passing = f"{name}-{number}"
        for client in CLIENTS:
            outcomes += home.registry().add(home.site(client), [target(name, 5000 + number), target(passing)])
        outcomes += home.registry().take_out(name, "a session was lost")
        outcomes += home.registry().put_back(target(name))
        for client in CLIENTS:
            outcomes += home.registry().remove(home.site(client), [passing])
    for outcome in outcomes:
        if outcome.change is Change.REFUSED:
            print(outcome)


if __name__ == "__main__":
    main()
