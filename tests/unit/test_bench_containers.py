"""What the kill of a container comes to, and the container that is made by hand."""

from pathlib import Path

import pytest

from bench.containers import DOCKER, by_hand, engine
from bench.measuring import Unable
from bench.rows.containers import Kill, summary
from tests.containers.engines import ENGINES, RealDocker, RealEngine

MS = 1_000_000


class Engine(RealEngine):
    """One that is only counted."""

    did: list[str]

    @classmethod
    def lacks(cls) -> str:
        return ""

    def set_up(self) -> None:
        self.did.append("started")
        self.pid = 1

    def tear_down(self) -> None:
        self.did.append("ended")
        self.folder.rmdir()


@pytest.fixture
def did(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setitem(ENGINES, DOCKER, Engine)
    monkeypatch.setattr(Engine, "did", [], raising=False)
    return Engine.did


def test_the_worst_kill_counts_from_the_event_and_the_rest_is_said() -> None:
    found = summary("container_error", [Kill(0, 50 * MS, (50 + took) * MS) for took in (10, 30, 20)])
    assert found.values == {"container_error": 30}
    assert found.notes == {"container_error": "worst of 3; median 20.0 ms, from the kill 70 ms"}


def test_an_error_before_the_event_took_no_time() -> None:
    found = summary("container_error", [Kill(0, 50 * MS, told * MS) for told in (40, 45, 47)])
    assert found.values == {"container_error": 0}
    assert found.notes["container_error"].endswith("median -5.0 ms, from the kill 45 ms; 3 before the event")


def test_all_who_need_an_engine_at_once_have_the_same(did: list[str]) -> None:
    with engine() as one:
        with engine() as other:
            assert other is one
        assert did == ["started"]
    assert did == ["started", "ended"]
    with engine() as next_one:
        assert next_one is not one
    assert did == ["started", "ended"] * 2


def test_an_engine_that_does_not_start_is_ended_and_tried_again(
    did: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Engine) -> None:
        raise AssertionError("its log")

    monkeypatch.setattr(Engine, "set_up", fail)
    for _ in range(2):
        with pytest.raises(AssertionError, match="its log"), engine():
            pass
    assert did == ["ended"] * 2


def test_without_an_engine_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RealDocker, "lacks", lambda: "no dockerd")
    with pytest.raises(Unable, match="no dockerd"), engine():
        pass


def test_without_the_docker_command_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unable, match="no docker "):
        by_hand(RealDocker(tmp_path), ["server"])
