"""What keeps instances from being made, said in the reason of the state, and in the log once."""

import asyncio
import logging
from typing import cast

import pytest

from mooring.errors import Unavailable
from mooring.runtimes.containers.failures import engine_unreachable, pull_failed
from mooring.runtimes.containers.pulling import Progress
from mooring.supervise import ReasonCode, State
from mooring.workloads.makers import Instance
from mooring.workloads.obstacles import Obstacles, pull_in_words
from tests.support import until
from tests.unit.test_supervise_supervisor import Rig


class Subject:
    def __init__(self) -> None:
        self.rig = Rig()
        self.tries = 0
        self.it = Obstacles("tool", self.rig.it, self.try_again)

    def try_again(self) -> None:
        self.tries += 1

    def says(self, code: ReasonCode) -> bool:
        """A question rather than a comparison: the type checker takes a property for a constant."""
        return self.rig.it.reason.code is code

    def tried(self, times: int) -> bool:
        return self.tries == times


class Paused:
    def __init__(self, title: str) -> None:
        self.title = title


async def test_a_missing_engine_is_told_once_and_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    subject, error = Subject(), engine_unreachable("/x.sock", "connection refused")
    with caplog.at_level(logging.WARNING):
        subject.it.met(error)
        subject.it.met(error)
    assert subject.says(ReasonCode.ENGINE_UNREACHABLE) and subject.rig.it.reason.hint
    assert len(caplog.records) == 1
    await until(lambda: subject.tries == 1)
    with caplog.at_level(logging.WARNING):
        subject.it.met(error)
    assert len(caplog.records) == 1, "until it was over, it is no news"
    subject.it.none()
    with caplog.at_level(logging.WARNING):
        subject.it.met(error)
    assert len(caplog.records) == 2
    subject.it.close()


async def test_a_pull_that_failed_is_not_tried_again_at_once() -> None:
    subject = Subject()
    subject.it.met(pull_failed("tool", "x:1", "no route"))
    assert subject.says(ReasonCode.PULL_FAILED)
    await asyncio.sleep(0)
    assert subject.tried(0)
    subject.it.on_engine(None, others_working=False)
    assert subject.tried(1), "something has changed: now it may work"


async def test_what_the_system_lacks_is_no_reason_of_containers() -> None:
    subject = Subject()
    subject.it.met(Unavailable("out of descriptors", code="no_resources"))
    assert subject.says(ReasonCode.FIRST_START)
    subject.it.close()
    subject.it.met(Unavailable("over", code="shutting_down"))


async def test_an_engine_that_goes_makes_an_idle_server_prove_itself_again() -> None:
    subject = Subject()
    subject.rig.spoke()
    error = engine_unreachable("/x.sock", "gone")
    subject.it.on_engine(error, others_working=True)
    assert subject.rig.shows(State.READY), "others still work"
    subject.it.on_engine(error, others_working=False)
    assert subject.rig.shows(State.STARTING) and subject.says(ReasonCode.ENGINE_UNREACHABLE)


async def test_a_pull_shows_how_far_it_is_but_not_a_hundred_times_a_second() -> None:
    subject = Subject()
    for done in range(1000):
        subject.it.on_progress(Progress("x:1", 3, 1, done * 1000, 1_000_000))
    assert len(subject.rig.told) == 1 and subject.says(ReasonCode.PULLING)
    subject.it.on_progress(Progress("x:1", 3, 3, 1_000_000, 1_000_000))
    assert subject.rig.it.reason.text == "pulling x:1: 3 of 3 layers, 1 of 1 MB"
    assert pull_in_words(Progress("x:1", 0, 0, 0, 0)) == "pulling x:1"


async def test_who_is_paused_is_told_until_it_goes_on_or_is_gone() -> None:
    subject = Subject()
    subject.rig.spoke()
    one, other = (cast("Instance", Paused(f"container {n}")) for n in (1, 2))
    subject.it.on_paused(other, True)
    subject.it.on_paused(one, True)
    assert subject.says(ReasonCode.PAUSED)
    assert subject.rig.it.reason.text == "container 1, container 2: paused by somebody, calls wait"
    subject.it.on_paused(one, False)
    assert "container 1" not in subject.rig.it.reason.text
    subject.it.on_gone(other)
    assert subject.says(ReasonCode.WORKING)
    subject.it.on_gone(one)
