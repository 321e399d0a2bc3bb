"""Questions of servers, one story at a time."""

import json

import pytest

from mooring.wire import jsonrpc
from mooring.wire.asked import MAX_ID_CHARACTERS, Asked
from mooring.wire.jsonrpc import Id


def ask(asked: Asked, id: Id) -> bytes:
    line = jsonrpc.request(id, "roots/list", b'{"n":18446744073709551615}')
    return asked.ask(jsonrpc.parse(line), line)


def answer(asked: Asked, id: Id) -> bytes | None:
    line = jsonrpc.result_response(id, {"ok": True})
    return asked.answer(jsonrpc.parse(line), line)


def id_of(line: bytes | None) -> Id:
    assert line is not None
    found = json.loads(line)["id"]
    assert isinstance(found, int | str | float)
    return found


def test_a_question_and_its_answer_pass_untouched() -> None:
    asked = Asked("m", 5)
    line = jsonrpc.request(0, "ping")
    assert asked.ask(jsonrpc.parse(line), line) is line
    reply = jsonrpc.result_response(0, {})
    assert len(asked) == 1
    assert asked.answer(jsonrpc.parse(reply), reply) is reply
    assert len(asked) == 0
    assert asked.answer(jsonrpc.parse(reply), reply) is None


def test_an_error_is_an_answer_too() -> None:
    asked = Asked("m", 5)
    ask(asked, 0)
    asked.lose()
    shown = id_of(ask(asked, 0))
    line = jsonrpc.error_response(shown, -1, "declined")
    assert asked.answer(jsonrpc.parse(line), line) == jsonrpc.error_response(0, -1, "declined")


def test_a_new_server_that_uses_an_old_id_is_shown_under_another() -> None:
    asked = Asked("m", 5)
    ask(asked, 0)
    assert asked.lose() == [0]
    shown = ask(asked, 0)
    assert shown == jsonrpc.request("m-1", "roots/list", b'{"n":18446744073709551615}')
    assert answer(asked, 0) is None
    assert answer(asked, "m-1") == jsonrpc.result_response(0, {"ok": True})
    assert answer(asked, "m-1") is None


def test_a_second_answer_to_an_old_server_does_not_reach_the_new_one() -> None:
    """The client sends again what it does not know to have arrived."""
    asked = Asked("m", 5)
    ask(asked, 0)
    assert answer(asked, 0) is not None
    asked.lose()
    assert id_of(ask(asked, 0)) != 0
    assert answer(asked, 0) is None


def test_an_id_that_is_still_open_is_not_used_twice() -> None:
    asked = Asked("m", 5)
    assert [id_of(ask(asked, 7)) for _ in range(3)] == [7, "m-1", "m-2"]
    assert [id_of(answer(asked, shown)) for shown in ("m-2", 7, "m-1")] == [7, 7, 7]


def test_a_number_and_its_text_are_two_ids() -> None:
    asked = Asked("m", 5)
    assert [id_of(ask(asked, 1)), id_of(ask(asked, "1"))] == [1, "1"]
    assert asked.withdraw("1") == "1"
    assert answer(asked, "1") is None
    assert id_of(answer(asked, 1)) == 1


def test_one_number_in_two_spellings_is_one_id() -> None:
    asked = Asked("m", 5)
    assert [id_of(ask(asked, 1)), id_of(ask(asked, 1.0))] == [1, "m-1"]
    back = id_of(answer(asked, "m-1"))
    assert (back, type(back)) == (1.0, float)
    assert asked.withdraw(1.0) == 1


def test_a_withdrawn_question_is_known_to_the_client_by_its_own_id() -> None:
    asked = Asked("m", 5)
    ask(asked, 0)
    asked.lose()
    ask(asked, 0)
    assert asked.withdraw(0) == "m-1"
    assert asked.withdraw(0) is None
    assert asked.withdraw(99) is None
    assert answer(asked, "m-1") is None
    assert id_of(ask(asked, 0)) == "m-2"


def test_the_number_of_open_questions_is_bounded() -> None:
    asked = Asked("m", 2)
    room = []
    for id in (0, 1):
        room.append(asked.takes(id))
        ask(asked, id)
    assert (room, asked.takes(2)) == ([True, True], False)
    answer(asked, 0)
    assert asked.takes(2)
    ask(asked, 2)
    assert asked.lose() == [1, 2]
    assert (asked.takes(3), len(asked), asked.lose()) == (True, 0, [])


def test_an_id_that_is_too_long_to_be_remembered_is_not_taken() -> None:
    asked = Asked("m", 2)
    assert asked.takes("x" * MAX_ID_CHARACTERS) and not asked.takes("x" * (MAX_ID_CHARACTERS + 1))
    assert asked.takes(10**MAX_ID_CHARACTERS)


@pytest.mark.parametrize("generations", [2, 3, 10])
def test_an_answer_that_comes_generations_late_reaches_nobody(generations: int) -> None:
    asked = Asked("m", 2)
    shown = []
    for _ in range(generations):
        shown += [id_of(ask(asked, 0)), id_of(ask(asked, 1))]
        asked.lose()
    assert len(set(shown)) == 2 * generations
    latest = id_of(ask(asked, 0))
    assert latest not in shown
    assert [answer(asked, old) for old in shown] == [None] * len(shown)
    assert id_of(answer(asked, latest)) == 0
    assert len(asked._abandoned) <= 2
