"""A container can stand where a process does (mypy checks it), and little is loaded where none is wanted."""

import subprocess
import sys
from pathlib import Path

from mooring.runtimes.containers.exits import ContainerExit
from mooring.runtimes.containers.instance import ContainerInstance
from mooring.runtimes.exits import Exit
from mooring.runtimes.process import ProcessInstance
from mooring.workloads.container_maker import ContainerMaker
from mooring.workloads.makers import Instance, Maker, ProcessMaker

LIGHT = {"endpoints", "failures", "harbours", "labels", "lives", "logbook", "passing", "spec"}
"""Values, and what leads to the rest."""


def instance(one: ContainerInstance | ProcessInstance) -> Instance:
    return one


def maker(one: ContainerMaker | ProcessMaker) -> Maker:
    return one


def test_little_of_it_is_imported_unless_it_is_needed() -> None:
    package = "mooring.runtimes.containers."
    script = f"import sys, mooring.host.daemon; print(*(n for n in sys.modules if n.startswith({package!r})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix(package) for name in done.stdout.split()}
    assert loaded <= LIGHT
    there = {path.stem for path in Path(sys.modules[f"{package}spec"].__file__ or "").parent.glob("*.py")}
    assert there > LIGHT, "what is not there cannot be loaded"


def test_an_exit_of_a_container_is_one() -> None:
    assert isinstance(ContainerExit(3), Exit) and tuple(ContainerExit(3)) == (3, None)
