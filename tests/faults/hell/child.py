"""The child from hell: an MCP server on stdio that draws its misdeeds from a seed.

    child.py SEED LEDGER FLOOD_BYTES [honest] [modern]

honest: it does what it likes but for one thing: it answers every call, or ends.
modern: it speaks 2026-07-28, and nothing else. It logs for those who want that.

What it really did is in the ledger, a line for each: `TIME N PID WORD REST`, where N is the number of
its start and WORD one of

    started                      it exists
    family PID                   a grandchild of it exists
    executed TOKEN VALUE         it read a whole call, and did it; VALUE is its own, and is in every answer
    replayed METHOD              Mooring told it what its predecessor knew
    resumed TOKEN                (modern) a call came back with answers, and the state that it was given
    wrong TEXT                   it saw what must never happen
    did TEXT                     anything else, for whoever reads the trace

Every instance has a temper: a few misdeeds of which it is capable, a manner of reading and writing, and
perhaps a fate, which is a point of the conversation at which it ends and the way it does.

It starts in the time that the interpreter takes: no module is imported that is not part of it or a few
kilobytes, JSON is written by hand, and read as Python, which it is as its client writes it.
"""

import _random
import _signal  # type: ignore[import-not-found]  # `signal` costs as much as all the others together
import posix
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")

SIGKILL, SIGTERM, SIGHUP, SIGSTOP = 9, 15, 1, 19
LIFETIME_S = 120
"""Should whoever started it be gone, and the guardian too."""
UNREAD_BYTES = 65536
USUAL_FLOOD_BYTES = 200_000
"""More is not left to chance."""

FATES = ("unread", "reading", "unanswered", "answering", "answering", "answered")
ENDS = ("exit 0", "exit 3", "SIGKILL", "SIGTERM", "SIGHUP", "no stdout", "no stdin", "deaf", "suspended")
SILENCE = ("tear", "forget", "garble", "deaf", "suspended")
"""Misdeeds and ends that leave a call without an answer."""
LEVELS = ("debug", "info", "info", "error")
ENVELOPE = "io.modelcontextprotocol/"
ABILITIES = {"roots": "roots/list", "sampling": "sampling/createMessage", "elicitation": "elicitation/create"}
OF_ALL, OF_SOME = "mooring", "anybody"
"""Who introduces itself by these names may have many clients: then a call says itself whose it is.

Of some: it is asked by one at a time, if it wants something of its client or has something to log.
"""
GREETINGS = ("twice", "refused", "botched", "silent", "late", "crowded", "curious", "other", "dies")
NAMES: "dict[str, Any]" = {"true": True, "false": False, "null": None, "__builtins__": {}}


class Draw(_random.Random):
    """Dice."""

    def below(self, number: int) -> int:
        return int(self.random() * number)

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, options: "Sequence[T]") -> "T":
        return options[self.below(len(options))]


def text_of(id: object) -> str:
    """An id as JSON."""
    return f'"{id}"' if isinstance(id, str) else str(id)


class Child:
    """One instance."""

    def __init__(
        self, seed: int, n: int, ledger: int, flood_bytes: int, *, is_honest: bool, is_modern: bool
    ) -> None:
        self.n = n
        self.ledger = ledger
        self.flood_bytes = flood_bytes if n == 1 else USUAL_FLOOD_BYTES
        self.is_honest = is_honest
        self.is_modern = is_modern
        self.listeners: dict[object, dict[str, Any]] = {}
        self.has_family = False
        self.draw = draw = Draw(seed * 1009 + n)
        self.read_bytes = draw.pick((1, 17, 1000, 65536, 65536, 65536))
        self.is_eager = draw.chance(0.3)
        self.is_talkative = draw.chance(0.4)
        self.is_curious = draw.chance(0.4)
        """It answers a call when its own question was answered; asked are those who can call again."""
        self.awaited: dict[str, bytes] = {}
        excluded = SILENCE if is_honest else ()
        self.misdeeds = [name for name in MISDEEDS if draw.chance(0.25) and name not in excluded]
        if self.is_talkative and draw.chance(0.5):
            self.misdeeds.append("hold")  # then there is something to talk about
        self.naughtiness = draw.pick((0.1, 0.3, 0.6))
        self.greeting = draw.pick(GREETINGS) if draw.chance(0.2) else "plain"
        self.fate = draw.pick(FATES) if draw.chance(0.5) else ""
        self.fate_at = 1 + draw.below(4)
        self.end = draw.pick([end for end in ENDS if end not in excluded])
        self.hears_end = draw.chance(0.7)
        self.session = ""
        self.is_shared = self.is_pooled = False
        self.concerned = ""
        """The session that its words are for; with many, that of the call it is at."""
        self.at = ""
        """The call."""
        self.uris: list[str] = []
        self.unsaid = b""
        self.held: list[bytes] = []
        self.unanswered: dict[bytes, str] = {}
        """Answers that it has not given, held back or forgotten; and whose calls they are to."""
        self.asked: dict[object, list[str]] = {}
        self.pings: set[object] = set()
        self.tokens: list[tuple[str, str, str]] = []
        """Of progress, with the session and the name of their call."""
        self.executed = 0
        self.count = 0
        self.id: object = 1
        self.last_answer = b""

    def note(self, word: str, rest: str = "") -> None:
        line = f"{time.monotonic():.6f} {self.n} {posix.getpid()} {word} {rest}\n"
        posix.write(self.ledger, line.encode("utf-8", "backslashreplace"))

    def fresh(self, kind: str) -> str:
        """A name that nobody else uses, in the order of their making."""
        self.count += 1
        return f"{kind}.{posix.getpid()}.{self.count}"

    # Life

    def live(self) -> None:
        draw = self.draw
        self.note(
            "started",
            f"reads {self.read_bytes}{' eagerly' if self.is_eager else ''}, greets {self.greeting}, "
            f"fate {self.fate or 'none'} at {self.fate_at}: {self.end}, capable of {' '.join(self.misdeeds)}",
        )
        if draw.chance(0.2):
            _signal.signal(SIGTERM, _signal.SIG_IGN)
        if draw.chance(0.1):
            self.have_family()
        if draw.chance(0.1):
            self.misbehave()
        if self.fate == "unread":
            self.meet_end()
        self.converse()

    def converse(self) -> None:
        waiting = select.poll()
        waiting.register(0, select.POLLIN)
        pending = b""
        while True:
            if (self.held or self.unsaid) and not waiting.poll(self.draw.below(15)):
                self.release()
                continue
            is_last = self.fate == "reading" and self.executed + 1 >= self.fate_at and self.session
            usual = self.read_bytes if len(pending) < 2000 else 65536  # in small bites it would take minutes
            data = posix.read(0, 1 + self.draw.below(60) if is_last else usual)
            if not data:
                self.hear_end()
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if line.strip():
                    self.hear(line)
            if is_last and pending:
                self.note("did", f"read {len(pending)} bytes of a message")
                self.meet_end()
            if self.is_eager and pending.endswith(b"}") and (message := self.whole(pending)):
                pending = b""
                self.take(message)

    def hear_end(self) -> None:
        self.note("did", "heard the end of its input")
        self.release()
        if self.hears_end:
            posix._exit(0)
        self.linger()

    def linger(self) -> None:
        while True:
            time.sleep(LIFETIME_S)

    def meet_end(self) -> None:
        """Its fate. Returns only if it goes on in some way."""
        self.flush()
        if self.is_honest and self.has_family and self.end.startswith("no "):
            self.end = "exit 3"  # nobody would see the end of a pipe that its family holds
        self.note("did", f"meets its end: {self.end}")
        self.fate = ""
        if self.end.startswith("exit"):
            posix._exit(int(self.end[-1]))
        elif self.end == "no stdout":
            posix.close(1)
            if self.draw.chance(0.5):
                self.linger()
        elif self.end == "no stdin":
            posix.close(0)
            self.linger()
        elif self.end == "deaf":
            self.linger()
        else:
            number = {"SIGKILL": SIGKILL, "SIGTERM": SIGTERM, "SIGHUP": SIGHUP, "suspended": SIGSTOP}[
                self.end
            ]
            if number in (SIGTERM, SIGHUP):  # ignored by itself, or by whoever started us all
                _signal.signal(number, _signal.SIG_DFL)
            posix.kill(posix.getpid(), number)

    # Hearing

    def whole(self, text: bytes) -> "dict[str, Any] | None":
        try:
            message: dict[str, Any] = eval(text, NAMES)
        except (SyntaxError, ValueError):
            return None
        return message

    def hear(self, line: bytes) -> None:
        message = self.whole(line)
        if message is None:
            self.note("wrong", f"was sent what is no message: {line[:200]!r}")
        else:
            self.take(message)

    def take(self, message: "dict[str, Any]") -> None:
        method, id = message.get("method"), message.get("id")
        if method is None:
            self.take_answer(message)
        elif id is None:
            self.note("did", f"heard {method}")
            if method == "notifications/cancelled":
                self.listeners.pop(message["params"]["requestId"], None)
        elif self.is_modern and method in ("initialize", "ping", "server/discover"):
            self.introduce(id, method)
        elif method == "subscriptions/listen":
            self.listen(id, message["params"]["notifications"])
        elif method == "initialize":
            self.greet(message)
        elif isinstance(id, str) and id.startswith("mooring-"):
            self.note("replayed", str(method))
            self.say(f'{{"jsonrpc":"2.0","id":"{id}","result":{{}}}}'.encode())
        else:
            self.id = id
            self.execute(message)

    def take_answer(self, message: "dict[str, Any]") -> None:
        """An answer must be to a question that this very instance has asked under that id.

        A client that answers twice may hit another question with the second.
        """
        id, result = message["id"], message.get("result")
        if id in self.awaited:
            line = self.awaited.pop(id)
            self.unanswered.pop(line, None)
            self.say(line)
        said = result.get("to") if isinstance(result, dict) and "again" not in result else None
        self.note("did", f"heard an answer, id {text_of(id)}: {said}")
        if (self.is_shared or self.is_modern) and "error" not in message and id not in self.pings:
            self.note("wrong", f"an answer, and nobody may be asked: {message}")
        if id not in self.asked:
            self.note("wrong", f"an answer to nothing it asked: {message}")
        elif said is not None and said not in self.asked[id]:
            self.note("wrong", f"an answer to {said}, asked were {self.asked[id]}")

    def greet(self, message: "dict[str, Any]") -> None:
        params, id = message["params"], text_of(message["id"])
        self.session = params["clientInfo"]["name"]
        self.is_shared = self.session == OF_ALL
        self.is_pooled = self.session == OF_SOME
        self.concerned = "" if self.is_shared or self.is_pooled else self.session
        version = params["protocolVersion"]
        self.note("did", f"greets {self.session}: {self.greeting}")
        greeting = self.greeting
        if greeting == "dies":
            self.meet_end()
        elif greeting == "late":
            time.sleep(self.draw.random() * 0.3)
        elif greeting == "crowded":
            for _ in range(1 + self.draw.below(5)):
                self.misbehave()
        elif greeting == "curious":
            self.ask()
        elif greeting == "other":
            version = self.draw.pick(("2024-11-05", "2025-03-26", "2025-06-18", "1999-01-01"))
        if greeting == "silent":
            return
        tail = '"error":{"code":-32602,"message":"not today"}'
        if greeting == "botched":
            tail = self.draw.pick(('"result":5', '"result":{"protocolVersion":7}', '"result":null', '"x":1'))
        elif greeting != "refused":
            lists = '{"listChanged":true}'
            capabilities = f'{{"tools":{lists},"prompts":{lists},"resources":{lists},"logging":{{}}}}'
            info = f'{{"name":"hell","version":"{self.n}"}}'
            facts = f'"protocolVersion":"{version}","capabilities":{capabilities},"serverInfo":{info}'
            tail = f'"result":{{{facts}}}'
        line = f'{{"jsonrpc":"2.0","id":{id},{tail}}}'.encode()
        for _ in range(2 if greeting == "twice" else 1):
            self.say(line)

    def execute(self, message: "dict[str, Any]") -> None:
        params = message.get("params", {})
        facts = params.get("arguments", params)
        if "uri" in params:
            self.uris.append(params["uri"])
        if "token" not in facts:
            self.serve(message["id"], message["method"])
            return
        token = facts["token"]
        if "requestState" in params:
            self.resume(message["id"], message["method"], token, params["requestState"])
            return
        value = self.fresh("v")
        self.note("executed", f"{token} {value}")
        self.executed += 1
        self.at = token
        meta = params.get("_meta", {})
        if self.is_modern:
            self.concerned = facts["session"] if ENVELOPE + "logLevel" in meta else ""
        elif self.is_shared or self.is_pooled:
            self.concerned = facts["session"]
        elif facts["session"] != self.session:
            self.note("wrong", f"{token} of {facts['session']} was sent to the server of {self.session!r}")
        wanted = meta.get("progressToken")
        if wanted is not None:
            self.tokens.append((text_of(wanted), facts["session"], token))
        is_fatal = self.executed == self.fate_at
        if is_fatal and self.fate == "unanswered":
            self.meet_end()
        if self.is_talkative:
            self.mutter()
            self.progress()
        if self.flood_bytes > USUAL_FLOOD_BYTES:
            self.flood_stderr()
        if self.draw.chance(self.naughtiness):
            self.misbehave()
        line = self.answer_to(message["id"], message["method"], token, value)
        abilities = [name for name in ABILITIES if name in meta.get(ENVELOPE + "clientCapabilities", ())]
        if self.is_modern and self.is_curious and abilities and self.draw.chance(0.7):
            line = self.asking(message["id"], token, value, facts["session"], self.draw.pick(abilities))
        if self.is_pooled and self.is_curious and not is_fatal and self.draw.chance(0.7):
            self.awaited[self.wonder()] = line
            self.unanswered[line] = self.concerned
        else:
            self.answer(line, is_fatal)
        if is_fatal and self.fate == "answered":
            self.meet_end()
        if self.is_pooled or self.is_modern:
            self.at = self.concerned = ""  # what it says now may be heard by whoever comes next
        if self.draw.chance(self.naughtiness):
            self.misbehave()

    # 2026-07-28

    def introduce(self, id: object, method: str) -> None:
        """It is asked what it is, or takes no part in that."""
        self.note("did", f"is asked {method}")
        tail = '"error":{"code":-32601,"message":"what?"}'
        if method == "server/discover":
            lists = '{"listChanged":true,"subscribe":true}'
            capabilities = f'{{"tools":{lists},"prompts":{lists},"resources":{lists},"logging":{{}}}}'
            versions = '"supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private"'
            tail = f'"result":{{"resultType":"complete",{versions},"capabilities":{capabilities}}}'
        self.answer(f'{{"jsonrpc":"2.0","id":{text_of(id)},{tail}}}'.encode(), is_fatal=False)

    def listen(self, id: object, wanted: "dict[str, Any]") -> None:
        self.note("did", f"is listened to, id {text_of(id)}: {wanted}")
        self.listeners[id] = wanted
        self.say(self.told(id, "notifications/subscriptions/acknowledged", '"notifications":{}'))

    def told(self, id: object, method: str, params: str) -> bytes:
        """For one who listens."""
        return self.noted(method, f'"_meta":{{"{ENVELOPE}subscriptionId":{text_of(id)}}},{params}', "")

    def tell_listeners(self) -> None:
        for id, wanted in self.listeners.items():
            for uri in wanted.get("resourceSubscriptions") or ():
                self.say(self.told(id, "notifications/resources/updated", f'"uri":"{uri}"'))
            for kind in ("tools", "prompts", "resources"):
                if wanted.get(f"{kind}ListChanged"):
                    self.say(self.told(id, f"notifications/{kind}/list_changed", '"more":1'))

    def asking(self, id: object, token: str, value: str, session: str, ability: str) -> bytes:
        """A question instead of an answer; all that it must remember is in the state."""
        params = f'{{"hell":"{session}","note":"{self.fresh("ask")}","of":"{token}"}}'
        request = f'"{ability}-1":{{"method":"{ABILITIES[ability]}","params":{params}}}'
        self.note("did", f"asks {request}")
        facts = (
            f'"resultType":"input_required","inputRequests":{{{request}}},"requestState":"{token} {value}"'
        )
        return f'{{"jsonrpc":"2.0","id":{text_of(id)},"result":{{{facts}}}}}'.encode()

    def resume(self, id: object, method: str, token: str, state: str) -> None:
        """Only what it has said itself is a state."""
        of, _, value = state.partition(" ")
        if of != token or not value.startswith("v."):
            line = f'{{"jsonrpc":"2.0","id":{text_of(id)},"error":{{"code":-32602,"message":"what state?"}}}}'
            self.answer(line.encode(), is_fatal=False)
            return
        self.note("resumed", token)
        self.answer(self.answer_to(id, method, token, value), is_fatal=False)

    def serve(self, id: object, method: str) -> None:
        """Mooring itself wants something of it."""
        self.note("did", f"is asked by Mooring: {method}")
        if self.is_shared or self.is_pooled:
            self.concerned = ""  # no client waits for this, whatever is said of it
        tail = '"error":{"code":-32601,"message":"what?"}' if method == "server/discover" else '"result":{}'
        self.answer(f'{{"jsonrpc":"2.0","id":{text_of(id)},{tail}}}'.encode(), is_fatal=False)

    # Saying

    def answer_to(self, id: object, method: str, token: str, value: str) -> bytes:
        facts = f'"token":"{token}","value":"{value}","hell":"{self.session}"'
        if self.draw.chance(0.1):
            facts += f',"pad":"{"y" * self.draw.below(100_000)}"'
        if method == "tools/list":
            tool = '{"name":"safe","inputSchema":{},"annotations":{"idempotentHint":true}}'
            facts += f',"tools":[{tool}]'
        if self.is_modern:
            facts += ',"resultType":"complete"'
        tail = f'"result":{{{facts}}}'
        if self.draw.chance(0.1):
            tail = f'"error":{{"code":-1,"message":"no","data":{{{facts}}}}}'
        return f'{{"jsonrpc":"2.0","id":{text_of(id)},{tail}}}'.encode()

    def answer(self, line: bytes, is_fatal: bool) -> None:
        if is_fatal and self.fate == "answering":
            self.flush()
            cut = self.draw.pick((1, self.draw.below(len(line)), len(line) - 1, len(line)))
            self.note("did", f"says {cut} of {len(line)} bytes of its answer")
            self.write(1, line[:cut])
            self.meet_end()
            return
        self.last_answer = line
        if "hold" in self.misdeeds and self.draw.chance(0.5):
            self.held.append(line)
            self.unanswered[line] = self.concerned
        elif "forget" in self.misdeeds and self.draw.chance(0.2):
            self.note("did", "never answers that")
            self.unanswered[line] = self.concerned
        elif "garble" in self.misdeeds and self.draw.chance(0.2):
            self.say(self.garbled(line))
        else:
            self.say(line)

    def garbled(self, line: bytes) -> bytes:
        """An answer that is none."""
        self.note("did", "garbles an answer")
        return self.draw.pick(
            (
                line[: self.draw.below(len(line))],
                line.replace(b'"2.0"', b'"1.0"'),
                line.replace(b'"result"', b'"outcome"').replace(b'"error"', b'"outcome"'),
                line[:-1] + b',"error":{"code":1,"message":"both"},"result":1}',
                line.replace(b'"value":"', b'"value":"\xff\xfe'),
                line + line,
                b"{" + line,
            )
        )

    def release(self) -> None:
        """Say what was held back, the last first."""
        if self.held and self.is_talkative:
            self.mutter()
        while self.held:
            line = self.held.pop()
            self.unanswered.pop(line, None)
            self.say(line)
        self.flush()

    def say(self, line: bytes, end: bytes = b"\n") -> None:
        data = line + end
        manner = self.draw.below(10)
        if manner == 0 and len(data) > 2:
            self.flush()
            for _ in range(1 + self.draw.below(5)):
                cut = self.draw.below(len(data))
                self.write(1, data[:cut])
                data = data[cut:]
                time.sleep(self.draw.random() * 0.004)
            self.write(1, data)
        elif manner == 1 and len(self.unsaid) < UNREAD_BYTES:
            self.unsaid += data
        else:
            self.flush()
            self.write(1, data)

    def flush(self) -> None:
        data, self.unsaid = self.unsaid, b""
        self.write(1, data)

    def write(self, descriptor: int, data: bytes) -> None:
        try:
            while data:
                data = data[posix.write(descriptor, data) :]
        except BrokenPipeError:
            posix._exit(0)
        except OSError:  # it has closed its stdout itself
            self.note("did", "speaks to nobody")

    # Misdeeds

    def misbehave(self) -> None:
        if self.misdeeds:
            name = self.draw.pick(self.misdeeds)
            self.note("did", name)
            MISDEEDS[name](self)

    def junk(self) -> None:
        self.say(self.draw.pick(JUNK)(self.draw), self.draw.pick((b"\n", b"\n", b"\r\n", b"\n\n\n")))

    def tear(self) -> None:
        """A line without an end: the next one is lost with it."""
        self.flush()
        self.write(1, self.draw.pick((b"{", b'"', b"torn ", b'{"jsonrpc":"2.0","id":99999,"result":')))

    def huge(self) -> None:
        size = self.draw.pick((20_000, 70_000, 300_000))
        self.say(
            self.draw.pick(
                (
                    b"h" * size,
                    b'{"jsonrpc":"2.0","id":98765,"result":"' + b"h" * size + b'"}',
                    self.noted("notifications/message", f'{self.level()},"data":"{"h" * size}"'),
                )
            )
        )

    def noted(self, method: str, params: str, session: str | None = None) -> bytes:
        """A notification with its own name, and that of the session it is for, in it."""
        facts = f'"hell":"{self.concerned if session is None else session}","note":"{self.fresh("n")}"'
        return f'{{"jsonrpc":"2.0","method":"{method}","params":{{{params},{facts}}}}}'.encode()

    def flood(self) -> None:
        if self.draw.chance(0.5):
            method, session = "notifications/message", self.concerned
        else:
            method, session = "notifications/resources/updated", self.anybody()
        for _ in range(self.draw.pick((1, 10, 300))):
            self.say(self.noted(method, f'{self.level()},"uri":"hell://x","data":"d"', session))

    def mutter(self) -> None:
        """Of a call that it is still at, or should be."""
        session = self.draw.pick([self.concerned, *self.unanswered.values()])
        self.say(self.noted("notifications/message", f'{self.level()},"data":"m"', session))

    def level(self) -> str:
        return f'"level":"{self.draw.pick(LEVELS)}"'

    def anybody(self) -> str:
        """Whom news are for: whoever wants them."""
        return "" if self.is_shared or self.is_pooled or self.is_modern else self.session

    def news(self) -> None:
        """Of what somebody has subscribed to, or nobody; and of a list."""
        if self.is_modern:
            self.tell_listeners()
            return
        uris = ["hell://y", *self.uris[-5:]]
        lines = [
            self.noted("notifications/resources/updated", f'"uri":"{self.draw.pick(uris)}"', self.anybody())
            for _ in range(3)
        ]
        kind = self.draw.pick(("tools", "prompts", "resources"))
        lines.append(self.noted(f"notifications/{kind}/list_changed", '"more":1', self.anybody()))
        self.say(b"\r\n".join(lines))

    def batch(self) -> None:
        lines = [self.noted("notifications/message", f'{self.level()},"data":"b"') for _ in range(3)]
        self.say(b"[" + b",".join(lines) + b"]")

    def repeat(self) -> None:
        if self.last_answer:
            self.unanswered.pop(self.last_answer, None)
            self.say(self.last_answer)

    def mistake(self) -> None:
        """Answers to nothing: ids that nobody used, and the present one as another type of JSON."""
        other = f'"{self.id}"' if not isinstance(self.id, str) else "-98765"
        id = self.draw.pick(("null", "-98765", "98765", '"nobody"', other, "1e300", "0.25", str(2**70)))
        self.say(f'{{"jsonrpc":"2.0","id":{id},"result":{{"hell":"{self.session}","strange":1}}}}'.encode())

    def wonder(self) -> str:
        """Ask one thing; the id of the question."""
        id = self.fresh("q")
        self.question(
            text_of(id), self.draw.pick(("roots/list", "sampling/createMessage", "elicitation/create"))
        )
        return id

    def ask(self) -> None:
        odd = (
            text_of(self.id),
            "0",
            "-1",
            "1.5",
            '""',
            '"q"',
            '"mooring-1"',
            str(2**70),
            text_of(self.fresh("q")),
        )
        method = self.draw.pick(("ping", "roots/list", "sampling/createMessage", "elicitation/create"))
        for _ in range(self.draw.pick((1, 1, 5))):
            self.question(self.draw.pick(odd), method)

    def question(self, id: str, method: str) -> None:
        name = self.fresh("ask")
        self.asked.setdefault(eval(id), []).append(name)
        if method == "ping":
            self.pings.add(eval(id))
        self.note("did", f"asks {method}, id {id}: {name}")
        params = f'{{"hell":"{self.concerned}","note":"{name}","of":"{self.at}"}}'
        self.say(f'{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}'.encode())

    def withdraw(self) -> None:
        ids = [text_of(id) for id in self.asked] + ['"nobody"', "-3", text_of(self.id)]
        withdrawn = self.draw.pick(ids)
        self.say(self.noted("notifications/cancelled", f'"requestId":{withdrawn}'))
        for id in [id for id in self.awaited if text_of(id) == withdrawn]:
            line = self.awaited.pop(id)  # nobody will tell it now: it answers without
            self.unanswered.pop(line, None)
            self.say(line)

    def progress(self) -> None:
        """Of a call that runs or has run, or of none."""
        nobodys = [('"none"', self.session, ""), ("-9", self.session, "")]
        token, session, call = self.draw.pick([*self.tokens, *nobodys])
        for n in range(1 + self.draw.below(4)):
            params = f'"progressToken":{token},"progress":{n},"of":"{call}"'
            self.say(self.noted("notifications/progress", params, session))

    def complain(self) -> None:
        said = self.draw.pick((b"trouble\n", b"half", b"\xff\0\n", b"x" * 100_000, b"a\rb\r\n" * 1000))
        self.write(2, said)

    def flood_stderr(self) -> None:
        """All of it once; after that a little."""
        size, self.flood_bytes = self.flood_bytes, 10_000
        line = b"e" * 99 + b"\n"
        for _ in range(1 + size // 100_000):
            self.write(2, line * 1000)

    def nap(self) -> None:
        time.sleep(self.draw.random() * 0.05)

    def have_family(self) -> None:
        """A grandchild, which may hold the pipes open and ignore SIGTERM, too."""
        holds, stubborn = self.draw.chance(0.5), self.draw.chance(0.5)
        self.has_family = True
        pid = posix.fork()
        if pid:
            return
        self.note("family", str(posix.getpid()))
        if self.draw.chance(0.3):
            posix.setpgid(0, 0)
        _signal.signal(SIGTERM, _signal.SIG_IGN if stubborn else _signal.SIG_DFL)
        if not holds:
            nothing = posix.open("/dev/null", posix.O_RDWR)
            for descriptor in range(3):
                posix.dup2(nothing, descriptor)
        _signal.alarm(LIFETIME_S)
        self.linger()


MISDEEDS = {
    "junk": Child.junk,
    "tear": Child.tear,
    "huge": Child.huge,
    "flood": Child.flood,
    "news": Child.news,
    "batch": Child.batch,
    "mutter": Child.mutter,
    "repeat": Child.repeat,
    "mistake": Child.mistake,
    "ask": Child.ask,
    "withdraw": Child.withdraw,
    "progress": Child.progress,
    "complain": Child.complain,
    "flood-stderr": Child.flood_stderr,
    "nap": Child.nap,
    "family": Child.have_family,
    # How it answers:
    "hold": Child.release,
    "forget": Child.nap,
    "garble": Child.junk,
}

JUNK: "Sequence[Callable[[Draw], bytes]]" = (
    lambda draw: bytes(draw.below(256) for _ in range(draw.below(80))).replace(b"\n", b""),
    lambda draw: b"\0" * draw.below(50),
    lambda draw: b"\xff\xfe\xfd",
    lambda draw: b"Server listening on stdio",
    lambda draw: b" \t\r",
    lambda draw: b"{}",
    lambda draw: b"[]",
    lambda draw: b"null",
    lambda draw: b"[" * draw.pick((10, 2000, 50_000)),
    lambda draw: b'{"jsonrpc":"2.0"}',
    lambda draw: b'{"jsonrpc":"2.0","id":{},"result":{}}',
    lambda draw: b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    lambda draw: b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    lambda draw: b'{"jsonrpc":"2.0","id":1e999,"result":{}}',
    lambda draw: b'{"jsonrpc":"2.0","method":5}',
    lambda draw: b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    lambda draw: b'{"jsonrpc":"2.0","id":98765,"result":{}} trailing',
    lambda draw: b'\xef\xbb\xbf{"jsonrpc":"2.0","id":98765,"result":{}}',
)


if __name__ == "__main__":
    _signal.alarm(LIFETIME_S)
    seed, path, flood_bytes, *words = sys.argv[1:]
    book = posix.open(path, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT, 0o600)
    start = int(posix.environ[b"MOORING_INSTANCE"].rpartition(b":")[2])
    Child(
        int(seed),
        start,
        book,
        int(flood_bytes),
        is_honest="honest" in words,
        is_modern="modern" in words,
    ).live()
