"""When an idle instance is asked whether it lives, and when it has had its chances."""

import json
from typing import Any

import pytest

from mooring.proxy.health import Health, Pulse
from mooring.proxy.policy import SessionPolicy
from mooring.wire.memory import Memory
from tests.one_pipe import Pipe

POLICY = SessionPolicy(ping_interval_s=30, ping_timeout_s=10)


class Asked(Pipe):
    """An instance that only remembers what it was asked."""

    def send(self, line: bytes) -> int:
        self.open.append(json.loads(line))
        return 0

    @property
    def ids(self) -> list[Any]:
        return [message["id"] for message in self.open]


class Patient:
    """One instance and its pulse, at moments that a test chooses."""

    def __init__(self, health: Health | None = None) -> None:
        self.health = health or Health(POLICY, "test")
        self.pulse = Pulse(self.health, 0.0)
        self.pipe = Asked()

    def dies_at(self, *moments: float) -> list[float]:
        return [now for now in moments if self.pulse.has_stopped(now, self.pipe, Memory())]


def test_it_is_asked_after_a_while_and_replaced_after_two_silences() -> None:
    patient = Patient()
    assert not patient.dies_at(0, 29.9)
    assert not patient.pipe.open
    assert not patient.dies_at(30, 39.9)
    assert len(patient.pipe.open) == 1
    assert not patient.dies_at(40, 49.9)
    assert len(set(patient.pipe.ids)) == 2, "an id is used once"
    assert patient.dies_at(50) == [50]


def test_any_answer_to_either_question_is_a_sign_of_life() -> None:
    patient = Patient()
    patient.dies_at(30, 40)
    first, _ = patient.pipe.ids
    assert not patient.pulse.hear("mooring-ping-1", 41) and not patient.pulse.hear(1, 41)
    assert patient.pulse.hear(first, 41), "late, and alive"
    assert not patient.dies_at(51, 70.9) and len(patient.pipe.open) == 2
    assert not patient.dies_at(71, 81, 90) and len(patient.pipe.open) == 4
    assert patient.dies_at(91) == [91]


def test_whoever_has_a_call_is_not_asked_and_an_old_silence_is_forgotten() -> None:
    patient = Patient()
    patient.dies_at(30, 40)
    patient.pulse.rest(45)
    assert not patient.dies_at(50, 74.9) and len(patient.pipe.open) == 2
    assert not patient.dies_at(75, 85) and patient.dies_at(95) == [95]


def test_what_does_not_read_is_told_nothing_more_and_has_missed_it() -> None:
    patient = Patient()
    patient.pipe.writable = False
    assert not patient.dies_at(30, 40) and patient.dies_at(50) == [50]
    assert not patient.pipe.open


def test_a_server_that_never_answers_pings_loses_one_instance_by_it(caplog: pytest.LogCaptureFixture) -> None:
    health = Health(POLICY, "odd")
    assert Patient(health).dies_at(30, 40, 50)
    patient = Patient(health)
    assert not patient.dies_at(30, 40, 50, 80, 90, 100)
    assert [record.getMessage()[:28] for record in caplog.records] == ["odd does not answer pings: i"]
    assert patient.pulse.hear(patient.pipe.ids[0], 101), "it does after all"
    assert patient.dies_at(131, 141, 151) == [151]


def test_nobody_is_asked_when_it_is_switched_off_or_about_to_end() -> None:
    for health in (Health(SessionPolicy(ping_interval_s=None), "test"), Health(POLICY, "test")):
        health.is_over = health.interval_s is not None
        patient = Patient(health)
        assert not patient.dies_at(30, 40, 50, 1000) and not patient.pipe.open


def test_a_question_that_is_open_when_all_end_is_no_miss() -> None:
    patient = Patient()
    patient.dies_at(30, 40)
    patient.health.is_over = True
    assert not patient.dies_at(50, 60)
