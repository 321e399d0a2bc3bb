"""Errors: code, message, hint, and the exit status of each."""

import pytest

from mooring import errors
from mooring.errors import (
    EXIT_STATUS,
    ListenFailed,
    LocalProtocolError,
    MooringError,
    ProtocolError,
    RemoteProtocolError,
    ServerFailed,
    Unavailable,
    UserError,
    exit_status,
)

EVERY = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, MooringError)]


class Special(UserError):
    """A kind of its own, as other packages make them."""


@pytest.mark.parametrize(
    ("cls", "status"),
    [
        (UserError, 2),
        (Special, 2),
        (Unavailable, 1),
        (ServerFailed, 1),
        (ListenFailed, 1),
        (ProtocolError, 1),
        (RemoteProtocolError, 1),
        (LocalProtocolError, 1),
        (MooringError, 1),
    ],
)
def test_the_exit_status_of_every_error(cls: type[MooringError], status: int) -> None:
    assert exit_status(cls("x", code="x")) == status


def test_a_nearer_class_outranks_a_farther_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXIT_STATUS, Special, 7)
    assert exit_status(Special("x", code="x")) == 7
    assert exit_status(UserError("x", code="x")) == 2


def test_every_group_that_a_user_can_meet_is_in_the_table() -> None:
    groups = {cls for cls in EVERY if cls.__bases__ == (MooringError,)}
    assert groups == set(EXIT_STATUS)
    assert {cls.__name__ for cls in EVERY} <= set(errors.__all__)


@pytest.mark.parametrize("cls", EVERY)
def test_an_error_carries_code_message_and_hint(cls: type[MooringError]) -> None:
    error = cls("no such program: x", code="program_missing", hint="install it")
    assert (str(error), error.message) == ("no such program: x", "no such program: x")
    assert (error.code, error.hint) == ("program_missing", "install it")
    assert cls("x", code="y").hint == ""
    assert repr(error) == f"{cls.__name__}(program_missing: no such program: x)"


def test_unavailable_may_say_when_to_come_back() -> None:
    assert Unavailable("x", code="x").retry_after_s is None
    assert Unavailable("x", code="x", retry_after_s=2.5).retry_after_s == 2.5
