"""What one client may hear. Everything it hears is checked at once, and counted."""

import asyncio
import secrets
from collections import Counter, deque
from typing import Any, NamedTuple

import msgspec

Id = int | str
Json = dict[str, Any]

NEWS = "news"
"""The id of a listener."""
EXPECTED_FAILURES = frozenset({"server_exited", "cancelled", "session_ended", "session_not_found"})
"""A call may fail: its server was killed, its client took it back or left."""
MOST_WRONG = 20
IDS: tuple[Id, ...] = tuple(id for n in range(1, 17) for id in (n, str(n)))
"""The same few for everybody."""

_decode = msgspec.json.Decoder().decode


class Tally:
    """What all clients have heard together."""

    def __init__(self, target: int) -> None:
        self.counts: Counter[str] = Counter()
        self.pid = 0
        """Of the process that answered last."""
        self.wrong: list[str] = []
        self._target = target

    @property
    def heard(self) -> int:
        """Messages of the server that reached a client."""
        return sum(number for what, number in self.counts.items() if what.startswith("heard"))

    @property
    def is_done(self) -> bool:
        return self.heard >= self._target or len(self.wrong) >= MOST_WRONG

    def blame(self, who: str, what: str, message: Any) -> None:
        if len(self.wrong) < MOST_WRONG:
            self.wrong.append(f"{who}: {what}: {message}")


class Expected(NamedTuple):
    """A call of ours: its number, the token of its progress, and whether its answer is waited for."""

    n: int
    token: Id | None = None
    awaited: bool = True


class Ears:
    """Of one client, for as long as it stays. When it comes again it is another one, with another secret."""

    def __init__(self, kind: str, tally: Tally) -> None:
        self.kind = kind
        self.secret = secrets.token_hex(8)
        self.result: Json = {}
        """Of the last call that was no `tell`."""
        self.logged = 0
        self._tally = tally
        self._calls: dict[Id, Expected] = {}
        self._ids = deque(IDS)
        self._awaited = 0
        self._quiet = asyncio.Event()
        self._n = 0

    def expect(
        self, *, token: bool = False, id: Id | None = None, awaited: bool = True
    ) -> tuple[Id, Expected]:
        """A call is about to be made."""
        self._n += 1
        if id is None:
            id = self._ids.popleft() if self._ids else f"more-{self._n}"
        # Equal to the id of another call, but for its type.
        other: Id = str(id) if isinstance(id, int) else int(id) if id.isdigit() else id
        expected = self._calls[id] = Expected(self._n, other if token else None, awaited)
        self._awaited += awaited
        self._quiet.clear()
        return id, expected

    def give_up(self, id: Id) -> None:
        """No answer need come any more; the id is not used again, since one may be on its way."""
        expected = self._calls[id]
        if expected.awaited:
            self._calls[id] = expected._replace(awaited=False)
            self._count_down()

    async def quiet(self) -> None:
        """Until every call is answered for which that is awaited."""
        while self._awaited:
            self._quiet.clear()
            await self._quiet.wait()

    def _count_down(self) -> None:
        self._awaited -= 1
        if not self._awaited:
            self._quiet.set()

    # What comes

    def hear(self, data: bytes) -> None:
        message = _decode(data)
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            self._hear_answer(message)
        elif method == "notifications/progress":
            self._hear_progress(params)
        elif method == "notifications/message":
            self._hear_log(params)
        elif method == "notifications/resources/updated":
            self._judge("updates", params["uri"] == f"secret://{self.secret}", params)
        else:
            known = method in ("notifications/tools/list_changed", "notifications/subscriptions/acknowledged")
            self._judge("other news", known, message)
        if "io.modelcontextprotocol/subscriptionId" in params.get("_meta", ()):
            named = params["_meta"]["io.modelcontextprotocol/subscriptionId"]
            self._judge("", named == NEWS, message)

    def _judge(self, what: str, is_right: bool, message: Any) -> None:
        if what:
            self._tally.counts[f"heard {what}"] += 1
        if not is_right:
            self._tally.blame(f"{self.kind} {self.secret}", f"wrong {what}", message)

    def _hear_answer(self, message: Json) -> None:
        id = message["id"]
        expected = self._calls.pop(id, None)
        if expected is None:
            self._judge("answers", False, message)
            return
        if id in IDS:
            self._ids.append(id)
        if expected.awaited:
            self._count_down()
        if "error" in message:
            reason = (message["error"].get("data") or {}).get("reason")
            self._judge("errors", reason in EXPECTED_FAILURES, message)
            self._tally.counts[f"failed: {reason}"] += 1
        elif "content" in message["result"]:
            secret, n, pid = message["result"]["content"][0]["text"].split()
            self._judge("answers", (secret, int(n)) == (self.secret, expected.n), message)
            self._tally.pid = int(pid)
        else:
            self.result = message["result"]
            self._judge("answers", True, message)

    def _hear_progress(self, params: Json) -> None:
        token = params["progressToken"]
        secret, n = params["message"].split()
        mine = any(
            expected.token == token and type(expected.token) is type(token) and expected.n == int(n)
            for expected in self._calls.values()
        )
        self._judge("progress", mine and secret == self.secret, params)

    def _hear_log(self, params: Json) -> None:
        if params["logger"] == "mooring":
            self._judge("other news", "restarted" in params["data"], params)
        else:
            self.logged += 1
            self._judge("log messages", params["logger"] == self.secret, params)
