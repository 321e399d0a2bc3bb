"""What is known of engines that were used, by whoever comes after."""

import stat
from pathlib import Path

from mooring.runtimes.containers.endpoints import Endpoint, parse_endpoint
from mooring.runtimes.containers.logbook import MAX_FILE_BYTES, Logbook

SOCKET = Endpoint("/run/docker.sock", "Docker")
ADDRESS = Endpoint("", "--engine", "::1", 2375)


def test_what_was_noted_is_known_to_the_next_and_each_engine_once(tmp_path: Path) -> None:
    logbook = Logbook(tmp_path / "engines")
    assert not logbook.endpoints() and not logbook.knows("auto") and not logbook.files()
    logbook.note("auto", SOCKET)
    logbook.note("auto", SOCKET)
    logbook.note("docker", SOCKET)
    logbook.note("tcp://[::1]:2375", ADDRESS)
    after = Logbook(tmp_path / "engines")
    assert sorted(map(str, after.endpoints())) == ["/run/docker.sock", "[::1]:2375"]
    assert after.knows("auto") and after.knows("docker") and not after.knows("podman")
    assert len(after.files()) == 3
    other = Endpoint("/run/podman.sock", "Podman")
    logbook.note("auto", other)
    last = after.last("auto")
    assert last is not None and last.path == other.path and after.last("podman") is None
    assert stat.S_IMODE((tmp_path / "engines").stat().st_mode) == 0o700


def test_what_is_no_note_is_passed_over(tmp_path: Path) -> None:
    logbook = Logbook(tmp_path)
    logbook.note("auto", SOCKET)
    [good] = tmp_path.iterdir()
    (tmp_path / "notes.txt").write_text("docker\nunix:///other.sock\n")
    (tmp_path / ("0" * 16)).write_text("docker\nunix:///unfinished.sock")
    (tmp_path / ("1" * 16)).write_text("docker\nssh://elsewhere\n")
    (tmp_path / ("2" * 16)).write_bytes(b"\xff\xfe\n\n")
    (tmp_path / ("3" * 16)).write_text(f"docker\nunix:///{'x' * MAX_FILE_BYTES}\n")
    (tmp_path / ("4" * 16)).mkdir()
    assert [found.path for found in logbook.endpoints()] == [SOCKET.path]
    good.unlink()
    assert not logbook.endpoints()


def test_a_disk_that_cannot_be_written_costs_nothing_but_the_note(tmp_path: Path) -> None:
    (tmp_path / "engines").write_text("somebody's file")
    logbook = Logbook(tmp_path / "engines")
    logbook.note("auto", SOCKET)
    assert not logbook.knows("auto") and not logbook.endpoints()


def test_an_endpoint_is_read_as_it_is_written() -> None:
    for endpoint in (SOCKET, ADDRESS):
        assert str(parse_endpoint(endpoint.url, "")) == str(endpoint)
