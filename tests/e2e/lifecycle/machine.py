"""What was asked for, step by step, and what must be the case afterwards.

After every step, as soon as things have come to rest:
- the servers there are, and what is wanted of them, are what was asked for; what is wanted is true
- no process runs but those of the present generation, which the daemon knows
- a generation that was seen once is never seen again for anything else
- the session of every client whose server was not removed is served, by whatever process there is
"""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mooring.errors import UserError
from mooring.workloads.definition import ServerOptions, dump_options
from tests.e2e.lifecycle.client import Client
from tests.e2e.lifecycle.daemon import RealDaemon, eventually
from tests.hosting import ENVIRONMENT, SCRIPTED, SHORT
from tests.support import alive

__all__ = ["Lifecycle"]

KINDS = {
    "good": SCRIPTED,
    "other": (*SCRIPTED, "--capabilities", '{"tools":{},"prompts":{}}'),
    "broken": ("false",),
}
NAMES = st.sampled_from(["a", "b"])
THERE = st.runner().flatmap(lambda machine: st.sampled_from(sorted(machine.wanted)))
SERVING = st.runner().flatmap(lambda machine: st.sampled_from(machine.serving))
MOST_CRASHES = 2
"""Of one generation: more would be waited out, as they should, and only cost time."""
AT_WORK = {"good": {"ready"}, "other": {"ready"}, "broken": {"starting", "backoff", "failed"}}
REFUSED = {"conflict", "unknown_server", "name_taken"}


class Wanted(msgspec.Struct):
    """A server as the model has it."""

    kind: str
    is_stopped: bool = False
    generation: int = 0
    crashes: int = 0

    @property
    def serves(self) -> bool:
        """Calls must succeed."""
        return not self.is_stopped and self.kind != "broken"


class Lifecycle(RuleBasedStateMachine):
    """Commands by the API, as every command gives them."""

    def __init__(self) -> None:
        super().__init__()
        self.daemon = RealDaemon()
        self.wanted: dict[str, Wanted] = {}
        self.clients: list[Client] = []
        self.highest = 0
        """Of the generations seen so far."""

    @property
    def serving(self) -> list[str]:
        """Servers that must answer."""
        return [name for name, there in sorted(self.wanted.items()) if there.serves]

    @initialize()
    def begin(self) -> None:
        """There is something to do something with."""
        self.run("a", "good", False)
        self.what_is_wanted_is_true()
        self.open_session("a")

    def teardown(self) -> None:
        """All of it ends, and nothing is left."""
        self.daemon.aclose()

    # Commands, one after another

    @rule(name=NAMES, kind=st.sampled_from(sorted(KINDS)), replace=st.booleans())
    def run(self, name: str, kind: str, replace: bool) -> None:
        """Have a server."""
        there = self.wanted.get(name)
        if there is not None and there.kind != kind and not replace:
            self._is_refused(lambda: self._run(name, kind, replace), "name_taken")
            return
        changed = self._run(name, kind, replace)["changed"]
        assert changed is not (there is not None and there.kind == kind and not there.is_stopped)
        if changed:
            self.wanted[name] = Wanted(kind)

    @precondition(lambda self: self.wanted)
    @rule(name=THERE)
    def start(self, name: str) -> None:
        """Have it run; if it does, nothing happens."""
        self._command(name, "start")
        self.wanted[name].is_stopped = False

    @precondition(lambda self: self.wanted)
    @rule(name=THERE)
    def stop(self, name: str) -> None:
        """Have it not run."""
        self._command(name, "stop")
        self.wanted[name].is_stopped = True
        assert not self.daemon.servers(name), "it returns when it is true"

    @precondition(lambda self: self.wanted)
    @rule(name=THERE)
    def restart(self, name: str) -> None:
        """Another generation."""
        self._command(name, "restart")
        self.wanted[name] = Wanted(self.wanted[name].kind)

    @precondition(lambda self: self.wanted)
    @rule(name=THERE)
    def remove(self, name: str) -> None:
        """Forget it."""
        self._command(name, "rm")
        assert not self.daemon.servers(name), "it returns when it is true"
        self._forget(name)

    # Two commands at once: either may win, and what then is wanted is true

    @precondition(lambda self: self.wanted)
    @rule(
        name=THERE,
        words=st.lists(st.sampled_from(["start", "stop", "restart", "rm"]), min_size=2, max_size=2),
    )
    def both(self, name: str, words: list[str]) -> None:
        """Whoever loses says so."""
        with ThreadPoolExecutor(2) as threads:
            done = list(threads.map(lambda word: self._either(name, word), words))
        assert any(done)
        if "rm" in words:  # it wins, whatever the other is
            self._forget(name)
            return
        server = self.daemon.ask("GET", f"/servers/{name}")
        # (Its generation may be the same: to start what runs is nothing.)
        self.wanted[name].is_stopped = server["desired"] == "stopped"
        self.what_is_wanted_is_true()
        self.start(name)  # what comes next must not depend on who was quicker

    def _either(self, name: str, word: str) -> bool:
        try:
            self._command(name, word)
        except UserError as error:
            assert error.code in REFUSED, error
            return False
        return True

    # What nobody asked for

    @precondition(lambda self: self.serving)
    @rule(name=SERVING)
    def crash(self, name: str) -> None:
        """A process of a server dies."""
        there, processes = self.wanted[name], sorted(self.daemon.servers(name))
        if processes and there.crashes < MOST_CRASHES:
            there.crashes += 1
            os.kill(processes[0], signal.SIGKILL)
            eventually(lambda: not alive(processes[0]), "it is dead")

    @rule()
    def kill_daemon(self) -> None:
        """Without warning; the next one goes on."""
        sessions = {client.session for client in self.clients}
        eventually(lambda: sessions <= self.daemon.written_sessions(), "sessions are written")
        self.daemon.kill()
        self._begin_again()

    @rule()
    def stop_daemon(self) -> None:
        """As it is meant to be."""
        assert self.daemon.stop() == 0
        assert not any(self.daemon.servers(name) for name in self.wanted)
        self._begin_again()

    def _begin_again(self) -> None:
        self.daemon.begin()
        # Else who asks for a server that is not begun yet is the one who begins it, and is told so.
        eventually(self._has_begun_all, "what should run is begun")
        for there in self.wanted.values():
            there.crashes = 0

    def _has_begun_all(self) -> bool:
        servers = self.daemon.ask("GET", "/servers")
        return all(server["started_at"] is not None for server in servers if server["desired"] == "running")

    # Clients

    @precondition(lambda self: self.serving and len(self.clients) < 4)
    @rule(name=SERVING)
    def open_session(self, name: str) -> None:
        """A client comes, and stays."""
        client = Client(self.daemon.port, name)
        client.open()
        self.clients.append(client)

    # What must be the case

    @invariant()
    def all_is_well(self) -> None:
        """Sessions at once, and when things have come to rest, which the second waits for."""
        self.sessions_stay_valid()
        self.what_is_wanted_is_true()
        self.generations_never_repeat()
        self.sessions_stay_valid()

    def what_is_wanted_is_true(self) -> None:
        """As soon as things have come to rest."""
        self.problems: list[str] = []
        try:
            eventually(self._is_at_rest, "what is wanted is true")
        except AssertionError as error:
            raise AssertionError(self.problems, self.wanted) from error

    def _is_at_rest(self) -> bool:
        servers = {server["name"]: server for server in self.daemon.ask("GET", "/servers")}
        assert set(servers) == set(self.wanted)
        self.problems = [
            f"{name}: {problem}"
            for name, there in self.wanted.items()
            if (problem := self._problem(there, servers[name]))
        ]
        return not self.problems

    def _problem(self, there: Wanted, server: Any) -> str:
        assert server["desired"] == ("stopped" if there.is_stopped else "running")
        assert tuple(server["command"]) == KINDS[there.kind]
        if server["state"] not in ({"stopped"} if there.is_stopped else AT_WORK[there.kind]):
            return f"it is {server['state']}"
        known = {instance["pid"] for instance in server["instances"]}
        if there.kind != "broken" and known != (found := self.daemon.servers(server["name"])):
            return f"processes {found} run, and {known} are known"
        return ""

    def generations_never_repeat(self) -> None:
        """Not after a removal either."""
        for server in self.daemon.ask("GET", "/servers"):
            there, generation = self.wanted[server["name"]], server["generation"]
            if generation != there.generation:
                assert generation > self.highest, f"{generation} may have been there: {self.highest} was"
                there.generation = self.highest = generation

    def sessions_stay_valid(self) -> None:
        """While their server is there; while it serves, they are served."""
        for client in self.clients:
            there = self.wanted[client.name]
            if there.is_stopped:
                assert client.ask("x/pid").status == 503
            elif there.serves:
                answer = client.ask("x/pid")
                assert answer.status == 200 and answer.body["result"]["pid"], answer

    # How

    def _run(self, name: str, kind: str, replace: bool) -> Any:
        options = ServerOptions(
            name=name,
            argv=KINDS[kind],
            env={**ENVIRONMENT, **self.daemon.mark},
            patience=SHORT,
        )
        body = {"options": msgspec.json.decode(dump_options(options)), "replace": replace}
        return self.daemon.ask("PUT", f"/servers/{name}", body)

    def _command(self, name: str, word: str) -> None:
        if word == "rm":
            self.daemon.ask("DELETE", f"/servers/{name}")
        else:
            self.daemon.ask("POST", f"/servers/{name}/{word}")

    def _forget(self, name: str) -> None:
        del self.wanted[name]
        gone = [client for client in self.clients if client.name == name]
        self.clients = [client for client in self.clients if client.name != name]
        for client in gone:
            assert client.ask("x/pid").status == 404

    @staticmethod
    def _is_refused(command: Callable[[], object], code: str) -> None:
        try:
            command()
        except UserError as error:
            assert error.code == code
        else:
            raise AssertionError(f"it should have been refused: {code}")
