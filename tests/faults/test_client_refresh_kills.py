"""Killed with SIGKILL at every step of a refresh: the next life of the daemon makes it right."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.clients import exchanging
from mooring.clients.following import EXITED, LOST, News
from tests.unit.test_clients_keeper import BEFORE, CLAUDE, CURSOR, FAILED, READY, Place

STEPS = {os: ("replace", "rename", "fsync", "unlink"), exchanging: ("exchange", "move_to_free_name")}
"""Whatever changes what is on the disk."""
MOST_STEPS = 100


def lost(place: Place) -> list[News]:
    return [place.event(LOST)]


def exited(place: Place) -> list[News]:
    place.servers["time"] = READY._replace(refresh="always")
    return [place.event(EXITED)]


def failed(place: Place) -> list[News]:
    place.servers["time"] = FAILED
    return [place.event("failed")]


def removed(place: Place) -> list[News]:
    place.servers.clear()
    return [place.event("removed")]


def moved(place: Place) -> list[News]:
    place.port = 4711
    return []


@pytest.mark.parametrize("happen", [lost, exited, failed, removed, moved])
def test_the_next_life_makes_it_right(tmp_path: Path, happen: Callable[[Place], list[News]]) -> None:
    for step in range(1, MOST_STEPS):
        place = Place(tmp_path / str(step))
        news = happen(place)
        if not is_killed_at(step, lambda place=place, news=news: refresh(place, news)):  # type: ignore[misc]
            assert step > 10, "there were hardly any"
            return
        if happen is failed:
            place.servers["time"] = READY
        place.live()
        unheard = [one for one in news if one.number > place.keeper.after]
        place.turn(*unheard)
        if unheard and happen in (lost, exited):
            assert CURSOR not in place.where(), "who was killed before the end begins anew"
        for _ in range(3):
            place.now += 60
            place.turn()
        if happen is removed:
            assert [(place.home / name).read_bytes() for name in (CURSOR, CLAUDE)] == [BEFORE] * 2, step
        else:
            assert place.where() == [CURSOR, CLAUDE], step
            url = f"http://127.0.0.1:{place.port}/time/mcp"
            assert {place.entry(name)["url"] for name in (CURSOR, CLAUDE)} == {url}, step
        assert not list(place.home.rglob(".mooring-*")), "nothing is left beside the files"
    raise AssertionError("it never ended")


def refresh(place: Place, news: list[News]) -> None:
    """Out and back, or whatever it is, in one life."""
    place.turn(*news)
    place.now += 60
    if "time" in place.servers:
        place.servers["time"] = READY
    place.turn()


def is_killed_at(step: int, work: Callable[[], None]) -> bool:
    """In a process of its own, before so many things were done to files. False: it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            _kill_at(step)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def _kill_at(step: int) -> None:
    done = [0]

    def counting(real: Any) -> Any:
        def counted(*words: Any, **options: Any) -> Any:
            done[0] += 1
            if done[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*words, **options)

        return counted

    for module, names in STEPS.items():
        for name in names:
            setattr(module, name, counting(getattr(module, name)))
