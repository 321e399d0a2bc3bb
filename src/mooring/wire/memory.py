"""What a session must remember so that a new server instance can take the old one's place.

A server that died took with it everything the client had told it. `Memory` watches the
conversation and keeps what is needed to say it again: the client's own `initialize` and
`initialized`, the log level, the subscriptions. It also notes which tools may be run twice.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from mooring.errors import RemoteProtocolError, ServerFailed
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.revisions import LATEST
from mooring.wire.surrogates import tolerant

__all__ = [
    "MAX_INITIALIZE_BYTES",
    "MAX_SUBSCRIPTIONS",
    "READS",
    "Handshake",
    "Memory",
    "Replay",
    "check_initialize",
    "expect_handshake",
    "has_room_for",
    "read_handshake",
]

MAX_INITIALIZE_BYTES = 256 * 1024
"""Of `initialize`, which every session remembers for as long as it lives, and of its result."""
MAX_HANDSHAKE_BYTES = 32 * 1024
"""Of what is remembered of that result: as objects it may take twenty times as much."""
MAX_SUBSCRIPTIONS = 1024
MAX_SUBSCRIPTION_BYTES = 256 * 1024
"""Of all of them together. A client that has more is told of fewer resources after a restart."""
MAX_NOTE_BYTES = 4096
"""Of `initialized` and of the log level, which need a hundred."""
MAX_TOOLS = 4096
MAX_TOOL_NAME = 128
"""Characters: what the protocol advises. A tool of another name counts as one that may not be repeated."""
MAX_TOOLS_BYTES = 4 * 1024 * 1024
"""Of a list that is looked at: what is read from it may take ten times that for a moment."""

_OWN_ID = "mooring-initialize"
_OWN_CLIENT = b'{"name":"mooring","title":"Mooring","version":"1"}'

# Asking again changes nothing on the server.
READS = frozenset(
    {
        "initialize",
        "ping",
        "tools/list",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
    }
)


_VERSION = re.compile(r"[\x21-\x7e]{1,64}")
"""What a revision may be called: every request says it again, in a header."""


class _Info(msgspec.Struct):
    name: str = ""
    version: str = ""


class Handshake(msgspec.Struct, rename="camel"):
    """The part of an InitializeResult that a bridge reads."""

    protocol_version: str
    capabilities: dict[str, Any] = {}
    server_info: _Info = msgspec.field(default_factory=_Info)

    def changed_lists(self) -> list[str]:
        """The notifications by which a client learns that every list may differ now."""
        return [
            f"notifications/{kind}/list_changed"
            for kind in ("tools", "prompts", "resources")
            if isinstance(entry := self.capabilities.get(kind), dict) and entry.get("listChanged")
        ]

    def news_of_change(self) -> list[bytes]:
        """That every list may differ."""
        return [jsonrpc.notification(method) for method in self.changed_lists()]

    def news_of_restart(self, cause: str) -> list[bytes]:
        """What a client is told when a new instance has taken over: nothing it was not prepared for."""
        news = self.news_of_change()
        if "logging" in self.capabilities:
            text = f"The server was restarted ({cause}); what it kept in memory is gone."
            params = {"level": "warning", "logger": "mooring", "data": text}
            news.append(jsonrpc.notification("notifications/message", params))
        return news


class _Hints(msgspec.Struct, rename="camel"):
    read_only_hint: bool | None = None
    idempotent_hint: bool | None = None


class _Tool(msgspec.Struct):
    name: str
    annotations: _Hints | None = None


class _Tools(msgspec.Struct):
    tools: list[_Tool] = []


class _Params(msgspec.Struct):
    name: str = ""
    uri: str = ""


class _Level(msgspec.Struct):
    level: str = ""


_read_handshake = tolerant(msgspec.json.Decoder(Handshake).decode)
_read_tools = tolerant(msgspec.json.Decoder(_Tools).decode)
_read_params = tolerant(msgspec.json.Decoder(_Params).decode)
_read_level = tolerant(msgspec.json.Decoder(_Level).decode)


def check_initialize(line: bytes) -> None:
    """Can a session remember it? Raises RemoteProtocolError."""
    if len(line) > MAX_INITIALIZE_BYTES:
        text = f"initialize has {len(line)} bytes; it may have {MAX_INITIALIZE_BYTES}"
        raise RemoteProtocolError(text, code="invalid_request")


def read_handshake(result: bytes | Raw) -> Handshake:
    """An InitializeResult. Raises RemoteProtocolError if it is none."""
    if len(result) > MAX_INITIALIZE_BYTES:
        text = f"an InitializeResult may have {MAX_INITIALIZE_BYTES} bytes, not {len(result)}"
        raise RemoteProtocolError(text, code="message_too_long")
    try:
        handshake = _read_handshake(result)
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(f"not an InitializeResult: {error}", code="bad_initialize_result") from None
    if not _VERSION.fullmatch(handshake.protocol_version):
        text = "not an InitializeResult: its protocolVersion is no word that a header can say"
        raise RemoteProtocolError(text, code="bad_initialize_result")
    if len(msgspec.json.encode(handshake)) > MAX_HANDSHAKE_BYTES:
        text = f"the capabilities and names of a server may have {MAX_HANDSHAKE_BYTES} bytes"
        raise RemoteProtocolError(text, code="message_too_long")
    return handshake


def _params(params: bytes | Raw) -> _Params:
    try:
        return _read_params(params)
    except msgspec.DecodeError:
        return _Params()


def expect_handshake(response: Envelope) -> Handshake:
    """The answer to an `initialize` of ours. Raises ServerFailed.

    An error says little: servers of the era without handshakes refuse them with whichever code they like.
    """
    if response.error:
        text = jsonrpc.error_message_of(response) or bytes(response.error).decode("utf-8", "replace")
        raise ServerFailed(f"it refuses initialize: {text[:500]}", code="initialize_refused")
    try:
        return read_handshake(response.result)
    except RemoteProtocolError as error:
        raise ServerFailed(error.message, code="initialize_failed") from None


def has_room_for(subscribed: Collection[str], uri: str) -> bool:
    """May a client subscribe to one more?"""
    if uri in subscribed:
        return True
    fits = sum(map(len, subscribed)) + len(uri) <= MAX_SUBSCRIPTION_BYTES
    return fits and len(subscribed) < MAX_SUBSCRIPTIONS


class Replay(NamedTuple):
    """One message to say again; it has an id if its answer must be awaited."""

    line: bytes
    id: Id | None


class _Kept(msgspec.Struct, omit_defaults=True):
    """A memory, as it is written down."""

    initialize: bytes
    id: Id
    handshake: Handshake
    initialized: bytes | None = None
    level: bytes | None = None
    subscriptions: dict[str, bytes] = {}


class Memory:
    """What one session has told its server, as far as a new one must know it."""

    WATCHED = frozenset({"tools/list", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
    """Methods whose answers matter here."""

    __slots__ = (
        "_initialize",
        "_initialized",
        "_level",
        "_repeatable",
        "_subscriptions",
        "handshake",
        "initialize_result",
        "is_ours",
    )

    def __init__(self) -> None:
        self._initialize: Replay | None = None
        self._initialized: bytes | None = None
        self._level: bytes | None = None
        self._subscriptions: dict[str, bytes] = {}
        self._repeatable: dict[str, bool] = {}
        self.handshake: Handshake | None = None
        self.is_ours = False
        """The words for `initialize` are our own."""
        self.initialize_result = b""
        """As the server said it, if the words are ours."""

    @classmethod
    def introducing_ourselves(cls, capabilities: bytes = b"{}", client: bytes = b"") -> "Memory":
        """Words of our own for `initialize`: there is no client whose words could be remembered."""
        memory, params = cls(), b'{"protocolVersion":%b,"capabilities":%b,"clientInfo":%b}'
        said = params % (msgspec.json.encode(LATEST), capabilities, client or _OWN_CLIENT)
        memory.is_ours = True
        memory._initialize = Replay(jsonrpc.request(_OWN_ID, "initialize", said), _OWN_ID)
        memory._initialized = jsonrpc.notification("notifications/initialized")
        return memory

    def introduced(self, handshake: Handshake, result: bytes) -> None:
        """The first instance has answered them."""
        self.handshake = handshake
        self.initialize_result = result

    def opened(self, initialize: Replay, handshake: Handshake) -> None:
        """The handshake succeeded: remember how it went."""
        self._initialize = initialize
        self.handshake = handshake

    def dump(self) -> bytes:
        """All that another Mooring needs to go on with the session; nothing before its handshake."""
        if self.handshake is None or self._initialize is None or self._initialize.id is None:
            return b""
        kept = _Kept(
            self._initialize.line,
            self._initialize.id,
            self.handshake,
            self._initialized,
            self._level,
            self._subscriptions,
        )
        return msgspec.json.encode(kept)

    @classmethod
    def load(cls, data: bytes) -> "Memory":
        """What `dump` has written. Raises msgspec.DecodeError."""
        kept, memory = msgspec.json.decode(data, type=_Kept), cls()
        memory.opened(Replay(kept.initialize, kept.id), kept.handshake)
        memory._initialized = kept.initialized
        memory._level = kept.level
        memory._subscriptions = kept.subscriptions
        return memory

    @property
    def introduction(self) -> bytes:
        """The params of `initialize`, as the client said them; nothing before it has."""
        return bytes(jsonrpc.parse(self._initialize.line).params) if self._initialize is not None else b""

    @property
    def level(self) -> str:
        """The log level that the client has asked for; empty: none."""
        try:
            return _read_level(self._level).level if self._level is not None else ""
        except msgspec.DecodeError:
            return ""

    @property
    def subscribed(self) -> list[str]:
        """The resources of whose updates it wants to hear."""
        return list(self._subscriptions)

    @property
    def repeatable(self) -> dict[str, bool]:
        """Of which tools it is known whether they may be run twice. Not written down: it is asked anew."""
        return self._repeatable

    def initialized(self, line: bytes) -> None:
        """The client has confirmed the handshake."""
        fits = len(line) <= MAX_NOTE_BYTES
        self._initialized = line if fits else jsonrpc.notification("notifications/initialized")

    def answered(self, method: str, params: bytes | Raw, response: Envelope) -> None:
        """A call has been answered; `WATCHED` names the methods for which that matters."""
        if not response.result:
            return
        if method == "tools/list":
            self._note_tools(response.result)
        elif method == "logging/setLevel":
            self._level = bytes(params) if len(params) <= MAX_NOTE_BYTES else None
        elif method == "resources/subscribe":
            self._subscribe(_params(params).uri, bytes(params))
        elif method == "resources/unsubscribe":
            self._subscriptions.pop(_params(params).uri, None)

    def news_of_updates(self) -> list[bytes]:
        """That every resource may differ of which the client wants to hear."""
        return [
            jsonrpc.notification("notifications/resources/updated", {"uri": uri})
            for uri in self._subscriptions
        ]

    def is_subscribed(self, uri: str) -> bool:
        """Will the next instance be told of it?"""
        return uri in self._subscriptions

    def _subscribe(self, uri: str, params: bytes) -> None:
        if len(params) > MAX_SUBSCRIPTION_BYTES:
            return
        kept = self._subscriptions
        kept[uri] = params
        while len(kept) > MAX_SUBSCRIPTIONS or sum(map(len, kept.values())) > MAX_SUBSCRIPTION_BYTES:
            del kept[next(iter(kept))]

    def _note_tools(self, result: Raw) -> None:
        if len(result) > MAX_TOOLS_BYTES:
            return
        try:
            tools = _read_tools(result).tools
        except msgspec.DecodeError:
            return
        for tool in tools:
            if len(tool.name) > MAX_TOOL_NAME:
                continue
            hints = tool.annotations
            self._repeatable[tool.name] = bool(hints and (hints.read_only_hint or hints.idempotent_hint))
        while len(self._repeatable) > MAX_TOOLS:
            del self._repeatable[next(iter(self._repeatable))]

    def may_repeat(self, method: str, params: bytes | Raw) -> bool:
        """Does running this call a second time do no harm? A read, or a tool that says so of itself."""
        if method == "tools/call":
            return self._repeatable.get(_params(params).name, False)
        return method in READS

    def replay(self, id_prefix: str) -> Iterator[Replay]:
        """What to tell a new instance, in order; `initialize` comes first.

        It keeps the client's own bytes, id included; other ids are made from `id_prefix`, which no
        client uses. Read step by step, so that what the client says meanwhile is not missed.
        """
        if self._initialize is None:
            return
        yield self._initialize
        confirmed = self._initialized is not None
        if self._initialized is not None:
            yield Replay(self._initialized, None)
        if self._level is not None:
            yield _again(f"{id_prefix}-level", "logging/setLevel", self._level)
        for n, params in enumerate(list(self._subscriptions.values())):
            yield _again(f"{id_prefix}-subscribe-{n}", "resources/subscribe", params)
        if not confirmed and self._initialized is not None:
            yield Replay(self._initialized, None)


def _again(id: str, method: str, params: bytes) -> Replay:
    return Replay(jsonrpc.request(id, method, params), id)
