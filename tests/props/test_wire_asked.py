"""Whatever servers ask and clients answer: no answer reaches a server that did not ask for it."""

import json
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from mooring.wire import jsonrpc
from mooring.wire.asked import Asked
from mooring.wire.jsonrpc import Id

OWN_IDS = st.sampled_from([0, 1, 2, "0", "1", "a", 1.0, 2.5])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), OWN_IDS),
        st.tuples(st.just("ask"), OWN_IDS),
        st.tuples(st.just("ask"), OWN_IDS),
        st.tuples(st.just("answer"), st.integers(0, 20)),
        st.tuples(st.just("answer"), st.integers(0, 20)),
        st.tuples(st.just("answer_nothing"), OWN_IDS),
        st.tuples(st.just("withdraw"), OWN_IDS),
        st.tuples(st.just("lose"), st.just(0)),
    ),
    max_size=60,
)


class Question(NamedTuple):
    serial: int
    own: Id
    shown: Id


def same(a: Id, b: Id) -> bool:
    return a == b and type(a) is type(b)


@given(STEPS, st.integers(1, 4))
def test_every_answer_reaches_exactly_the_server_that_waits_for_it(
    steps: list[tuple[str, Id]], limit: int
) -> None:
    asked = Asked("mooring-x", limit)
    client: list[Question] = []  # what the client was asked and has not answered
    waiting: list[Question] = []  # what the living server still wants to know, oldest first
    for serial, (step, value) in enumerate(steps):
        if step == "ask" and asked.takes(value):
            line = jsonrpc.request(value, "m", b'{"serial":%d}' % serial)
            message = json.loads(asked.ask(jsonrpc.parse(line), line))
            assert (message["method"], message["params"]) == ("m", {"serial": serial})
            assert message["id"] not in [question.shown for question in client]
            question = Question(serial, value, message["id"])
            client.append(question)
            waiting.append(question)
        elif step == "answer" and client:
            assert isinstance(value, int)
            question = client.pop(value % len(client))
            line = jsonrpc.result_response(question.shown, {"serial": question.serial})
            passed = asked.answer(jsonrpc.parse(line), line)
            if question in waiting:
                waiting.remove(question)
                assert passed is not None
                found = json.loads(passed)
                assert found["result"] == {"serial": question.serial}
                assert same(found["id"], question.own)
            else:
                assert passed is None
        elif step == "answer_nothing" and value not in [question.shown for question in client]:
            line = jsonrpc.result_response(value, {})
            assert asked.answer(jsonrpc.parse(line), line) is None
        elif step == "withdraw":
            wanted = next((question for question in waiting if question.own == value), None)
            assert asked.withdraw(value) == (wanted.shown if wanted else None)
            if wanted:
                waiting.remove(wanted)
        elif step == "lose":
            assert asked.lose() == [question.shown for question in waiting]
            waiting.clear()
        assert len(asked) == len(waiting)
        assert asked.takes(0) == (len(waiting) < limit)
        assert len(asked._abandoned) <= limit
