"""The machine is described by what matters, and by nothing that tells whose it is."""

import platform
import socket
import sys
from pathlib import Path

import mooring
from bench import machine

CPUINFO = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu\n\nprocessor\t: 1\nmodel name\t: AMD EPYC\n"


def test_the_machine_has_everything_one_needs_to_judge_figures() -> None:
    described = machine.describe({"fastmcp": "4.1.4"})
    assert list(described) == ["cores", "cpu", "memory", "kernel", "python", "mooring", "fastmcp"]
    assert int(described["cores"]) >= 1
    assert described["kernel"].startswith(platform.system())
    assert described["python"].endswith(platform.python_version())
    assert described["mooring"] == mooring.__version__
    assert all(described.values())


def test_neither_host_nor_path_is_told() -> None:
    told = machine.describe({})
    assert socket.gethostname() not in told.values()
    assert not any("/" in value for value in told.values())


def test_the_kernel_is_a_number_without_its_builders_name() -> None:
    assert set(machine.describe({})["kernel"].removeprefix(platform.system()).strip()) <= set("0123456789.")


def test_the_model_is_read_once() -> None:
    assert machine.cpu_model(CPUINFO) == "AMD EPYC"


def test_without_a_model_there_is_the_architecture() -> None:
    assert machine.cpu_model("processor\t: 0\n") == platform.machine()


def test_the_version_of_a_python_package() -> None:
    assert machine.pypi_version(Path(sys.executable), "msgspec")[0].isdigit()
    assert machine.pypi_version(Path(sys.executable), "no-such-package") == "unknown"


def test_the_version_of_an_npm_package(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "supergateway"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "supergateway", "version": "4.0.0"}')
    assert machine.npm_version(tmp_path, "supergateway") == "4.0.0"
    assert machine.npm_version(tmp_path, "no-such-package") == "unknown"


def test_a_caption_takes_one_line() -> None:
    described = {"cores": "2", "cpu": "AMD EPYC", "memory": "8.3 GB", "kernel": "Linux 6.8.0"}
    assert machine.sentence(described) == "2 cores of AMD EPYC, 8.3 GB of memory, Linux 6.8.0, unknown"
