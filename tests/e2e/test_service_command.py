"""`mooring service`, as a user has it; systemd itself is played by a program of ours, which runs the unit."""

import shutil
from pathlib import Path

from tests.e2e.test_commands_document import names
from tests.e2e.test_daemon_command import Home, home
from tests.hosting import DEMO

SYSTEMCTL = Path(__file__).with_name("systemctl.py")
UNIT = Path("config/systemd/user/mooring.service")


def with_systemd(place: Home, folder: Path) -> Path:
    """A place where `systemctl` is found; returns the directory in which that keeps its things."""
    programs, runtime = folder / "bin", folder / "runtime"
    for directory in (programs, runtime):
        directory.mkdir()
    shutil.copy(SYSTEMCTL, programs / "systemctl")
    place.environment |= {
        "PATH": f"{programs}:{place.environment['PATH']}",
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_RUNTIME_DIR": str(runtime),
    }
    return runtime


async def test_the_daemon_as_a_service(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        runtime = with_systemd(place, tmp_path)
        assert "mooring service install" in await place.done("service", "status")
        assert await place.done("service", "uninstall") == "There is no service\n"
        told = await place.done("service", "install")
        assert told.splitlines()[-1] == "It runs" and (tmp_path / UNIT).exists()
        about = await place.told("service", "status")
        assert set(about) == names("`mooring service status --json`")
        assert all(about[name] for name in ("installed", "current", "enabled", "running"))
        assert "it runs" in await place.done("service", "status")
        pid = (await place.told("daemon", "status"))["pid"]
        assert str(pid) == (runtime / "mooring.service.pid").read_text()

        await place.done("run", "demo", "--", *DEMO)
        await place.done("daemon", "stop")
        assert not (await place.told("service", "status"))["running"], "stopped is stopped"
        await place.done("start", "--all")
        pid = (await place.told("daemon", "status"))["pid"]
        assert str(pid) == (runtime / "mooring.service.pid").read_text(), (
            "whoever needs it has systemd start it"
        )

        assert "removed" in await place.done("service", "uninstall")
        assert not (tmp_path / UNIT).exists()
        status, _, err = await place.mooring("daemon", "status")
        assert status == 1 and "does not run" in err


async def test_a_daemon_that_runs_already_goes_on(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        with_systemd(place, tmp_path)
        await place.done("run", "demo", "--", *DEMO)
        pid = (await place.told("daemon", "status"))["pid"]
        told = await place.done("service", "install")
        assert f"pid {pid}" in told and "mooring daemon stop" in told
        assert (await place.told("daemon", "status"))["pid"] == pid
        assert not (await place.told("service", "status"))["running"]


async def test_a_service_for_other_places_is_told_of_and_left_alone(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        runtime = with_systemd(place, tmp_path)
        await place.done("service", "install")
        await place.done("daemon", "stop")
        place.environment["MOORING_STATE_DIR"] = str(tmp_path / "state" / "other")
        assert "mooring service install renews it" in await place.done("service", "status")
        await place.done("run", "demo", "--", *DEMO)
        pid = (await place.told("daemon", "status"))["pid"]
        assert str(pid) != (runtime / "mooring.service.pid").read_text()


async def test_no_systemd_and_one_that_fails_are_explained(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        usual = place.environment["PATH"]
        place.environment["PATH"] = str(tmp_path)
        status, _, err = await place.mooring("service", "install")
        assert status == 2 and "no systemd" in err and "mooring serve" in err
        place.environment["PATH"] = usual
        runtime = with_systemd(place, tmp_path)
        (runtime / "broken").touch()
        status, out, err = await place.mooring("service", "install")
        assert status == 1 and "Failed to connect to bus" in err and "su or sudo" in err
        assert "in a container" in err and "mooring serve" in err
        assert "is written" not in out and not (tmp_path / UNIT).exists(), "it takes its file back"


async def test_a_systemd_that_cannot_be_reached_keeps_no_file(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        runtime = with_systemd(place, tmp_path)
        await place.done("service", "install")
        await place.done("daemon", "stop")
        written = (tmp_path / UNIT).read_text()
        (runtime / "broken").touch()
        place.environment["MOORING_PORT"] = "4999"
        assert (await place.mooring("service", "install"))[0] == 1
        assert (tmp_path / UNIT).read_text() == written, "what was there is there again"

        status, out, err = await place.mooring("service", "uninstall")
        assert status == 1 and "is removed" in out and "systemd could not be told" in err
        assert not [path for path in (tmp_path / "config").rglob("*") if not path.is_dir()], "no link either"
        assert await place.done("service", "uninstall") == "There is no service\n"


async def test_a_unit_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        with_systemd(place, tmp_path)
        unit = tmp_path / UNIT
        unit.parent.mkdir(parents=True)
        unit.write_text("[Unit]\nDescription=a marina\n")
        for words in ("install", "uninstall"):
            status, _, err = await place.mooring("service", words)
            assert status == 2 and "was not written by Mooring" in err
        assert "marina" in unit.read_text()


async def test_a_link_in_the_way_is_not_written_through(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        with_systemd(place, tmp_path)
        unit, precious = tmp_path / UNIT, tmp_path / "precious"
        unit.parent.mkdir(parents=True)
        precious.write_text("mine")
        unit.with_name(f"{unit.name}.new").symlink_to(precious)
        await place.done("service", "install")
        assert precious.read_text() == "mine" and not unit.is_symlink()
