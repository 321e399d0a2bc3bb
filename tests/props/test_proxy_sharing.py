"""Whatever many clients do on one instance, in whatever order it answers: each hears its own, once."""

import asyncio
import json
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.proxy.shared_face import SharedFace
from mooring.proxy.sharing import Sharing
from tests.one_pipe import Ears, Pipe, trunks_over

IDS = st.one_of(st.integers(0, 3), st.sampled_from(["0", "1", "2", "é"]))
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.integers(0, 3), IDS, st.one_of(st.none(), IDS)),
        st.tuples(st.just("cancel"), st.integers(0, 3), IDS, st.none()),
        st.tuples(st.sampled_from(["answer", "progress", "twice"]), st.integers(0, 50), st.none(), st.none()),
        st.tuples(st.just("leave"), st.integers(0, 3), st.none(), st.none()),
    ),
    max_size=40,
)


class Client(Ears):
    """A session's ears, and what it may expect to hear."""

    def __init__(self, name: int, sharing: Sharing) -> None:
        super().__init__()
        self.name = name
        self.face = SharedFace(sharing, time.monotonic)
        self.face.attach(self)
        self.waiting: dict[int | str, tuple[str, int | str | None]] = {}
        """The id → what is asked, and the token."""


async def play(actions: list[tuple[Any, ...]]) -> None:
    pipe = Pipe()
    trunks = trunks_over(pipe)
    sharing = Sharing(trunks, 1)
    clients = [Client(n, sharing) for n in range(4)]
    expected: list[list[dict[str, Any]]] = [[] for _ in clients]
    asked = 0
    clients[0].face.send(b'{"jsonrpc":"2.0","id":"i","method":"ping"}')
    await _settle()
    expected[0].append({"jsonrpc": "2.0", "id": "i", "result": {}})
    for kind, number, id, token in actions:
        if kind == "call" and id not in clients[number].waiting:
            asked += 1
            what = f"{number}-{asked}"
            params: dict[str, Any] = {"what": what}
            if token is not None:
                params["_meta"] = {"progressToken": token}
            clients[number].waiting[id] = (what, token)
            line = json.dumps({"jsonrpc": "2.0", "id": id, "method": "x", "params": params})
            clients[number].face.send(line.encode())
        elif kind == "cancel":
            params = {"requestId": id}
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            clients[number].face.send(json.dumps(note).encode())
            clients[number].waiting.pop(id, None)
        elif kind == "leave":
            clients[number].face.release("leaves")
            clients[number].waiting.clear()
            clients[number].face = SharedFace(sharing, time.monotonic)
            clients[number].face.attach(clients[number])
        elif kind in ("answer", "progress", "twice") and pipe.open:
            _serve(kind, pipe, number % len(pipe.open), clients, expected)
        await _settle()
    for client, messages in zip(clients, expected, strict=True):
        assert [json.loads(line) for line in client.heard] == messages
    await trunks.aclose("the end")


def _serve(
    kind: str, pipe: Pipe, at: int, clients: list[Client], expected: list[list[dict[str, Any]]]
) -> None:
    call = pipe.open[at]
    what = call["params"]["what"]
    owner = clients[int(what.partition("-")[0])]
    found = [(id, token) for id, (said, token) in owner.waiting.items() if said == what]
    if kind == "progress":
        number = call["params"].get("_meta", {}).get("progressToken", call["id"])
        pipe.say(method="notifications/progress", params={"progressToken": number, "progress": 1})
        if found and found[0][1] is not None:
            params = {"progressToken": found[0][1], "progress": 1}
            note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            expected[owner.name].append(note)
        return
    del pipe.open[at]
    for _ in range(2 if kind == "twice" else 1):
        pipe.say(id=call["id"], result={"what": what})
    if found:
        expected[owner.name].append({"jsonrpc": "2.0", "id": found[0][0], "result": {"what": what}})
        del owner.waiting[found[0][0]]


async def _settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


@settings(max_examples=300, deadline=None)
@given(ACTIONS)
def test_each_hears_its_own_and_nothing_else(actions: list[tuple[Any, ...]]) -> None:
    asyncio.run(play(actions))
