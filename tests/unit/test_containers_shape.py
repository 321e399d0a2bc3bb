"""A container can stand where a process does: what workloads and the proxy use of the one, the other has."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

from mooring import workloads
from mooring.proxy.ports import Channel
from mooring.runtimes.containers.instance import ContainerInstance
from mooring.runtimes.containers.runtime import ContainerRuntime
from mooring.runtimes.exits import Exit
from mooring.runtimes.process import ProcessInstance
from mooring.runtimes.runtime import ProcessRuntime

NOT_OF_ALL = {"guardian_pid", "household"}
"""What only processes have."""


def channel(instance: ContainerInstance) -> Channel:
    """Checked by mypy."""
    return instance


def used(names: set[str], public: set[str]) -> set[str]:
    """Which of them are read from a variable or a member of such a name, anywhere in `workloads`."""
    found = set()
    for path in Path(next(iter(workloads.__path__))).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in public:
                owner = node.value
                name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                if name in names:
                    found.add(node.attr)
    return found


def public(of: type, source: object) -> set[str]:
    """Methods and properties, and what `__init__` sets."""
    tree = ast.parse(inspect.getsource(source))  # type: ignore[arg-type]
    members = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    return {name for name in members | set(dir(of)) if not name.startswith("_")}


def test_an_instance_has_all_that_is_used_of_one() -> None:
    theirs = public(ProcessInstance, inspect.getmodule(ProcessInstance))
    needed = used({"instance", "_instance", "spare"}, theirs)
    assert {"n", "pid", "stop", "attach", "describe", "hold", "go_on", "started_at"} <= needed
    ours = public(ContainerInstance, inspect.getmodule(ContainerInstance))
    assert needed <= ours, needed - ours
    beyond = {"exit", "wait", "wait_gone", "reaped", "is_leftover", "begin_stop", "hurry", "aclose"}
    assert beyond <= ours and {"send", "writable", "consumed"} <= ours


def test_a_runtime_has_all_that_is_used_of_one() -> None:
    theirs = public(ProcessRuntime, inspect.getmodule(ProcessRuntime))
    needed = used({"runtime", "_runtime"}, theirs) - NOT_OF_ALL
    assert {"start", "instances", "hurry", "aclose", "adopt", "part_with"} <= needed
    ours = public(ContainerRuntime, inspect.getmodule(ContainerRuntime))
    assert needed <= ours, needed - ours


def test_what_has_the_same_name_takes_the_same() -> None:
    for theirs, ours in ((ProcessInstance, ContainerInstance), (ProcessRuntime, ContainerRuntime)):
        for name in ("stop", "attach", "hurry", "aclose", "part_with", "adopt", "start", "describe", "leave"):
            if hasattr(theirs, name):
                one, other = inspect.signature(getattr(theirs, name)), inspect.signature(getattr(ours, name))
                assert list(one.parameters) == list(other.parameters), name


def test_nothing_of_it_is_imported_unless_it_is_needed() -> None:
    script = "import sys, mooring.workloads.workload; print('mooring.runtimes.containers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_exit_of_a_container_is_one() -> None:
    from mooring.runtimes.containers.exits import ContainerExit

    assert isinstance(ContainerExit(3), Exit) and tuple(ContainerExit(3)) == (3, None)
