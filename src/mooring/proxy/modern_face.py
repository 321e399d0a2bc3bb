"""A server of 2026-07-28, as a client of the handshake era knows servers.

`initialize` is answered from what the server says of itself; log level and subscriptions are kept here
and told with each request; what the server asks by `input_required` is asked of the client by real
requests, on the stream of its call, and the call is made again with the answers and the server's own
state, byte by byte. Lists that change and resources are heard through one `subscriptions/listen`.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Raw

from mooring.proxy.call_errors import Failure
from mooring.proxy.dialogues import Dialogues
from mooring.proxy.face import Face
from mooring.proxy.riders import Indifferent, Ride
from mooring.proxy.trunk import Trunk
from mooring.wire import jsonrpc
from mooring.wire.eras import Preface, for_handshake_error, handshake_result, reduced_result
from mooring.wire.jsonrpc import INTERNAL_ERROR, Envelope, Id, error_response
from mooring.wire.members import Members, read_members, write_members
from mooring.wire.memory import has_room_for
from mooring.wire.modern import ACKNOWLEDGED, LISTEN, SUBSCRIPTION_KEY
from mooring.wire.notes import is_extension
from mooring.wire.params import cancelled_id, progress_of_call
from mooring.wire.revisions import HANDSHAKE_REVISIONS, LATEST
from mooring.wire.shared import is_level

__all__ = ["ModernFace", "Subscription"]

LISTEN_AGAIN_S = 2.0
LISTS = ("tools", "prompts", "resources")
ANSWERED_HERE = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)


class Subscription(Indifferent):
    """One listener of a session at the server."""

    __slots__ = ("_face", "ride")

    def __init__(self, face: "ModernFace") -> None:
        self._face = face
        self.ride: Ride | None = None

    def answered(self, ride: Ride, response: Envelope, now: float) -> None:
        """The server has ended it."""
        self._face.listen_again(self)

    def failed(self, ride: Ride, failure: Failure, now: float) -> None:
        """It could not be had."""
        self._face.listen_again(self)

    def hear_news(self, ride: Ride, note: Envelope, now: float) -> None:
        """What it listens for."""
        if note.method != ACKNOWLEDGED:
            self._face.pass_news(note)
        elif self.ride is not None:
            self.ride.acknowledged = True


class Host(Protocol):
    """Who keeps the trunks of such a server."""

    def seat(self) -> tuple[Trunk, bool]:
        """A trunk for one more session; is it the only one there?"""
        ...

    def board(self, face: "ModernFace") -> None:
        """It is there."""
        ...

    def unboard(self, face: "ModernFace", reason: str) -> None:
        """It has gone."""
        ...

    def may_log(self, face: "ModernFace") -> bool:
        """A log message names no call: could one be only about this session's?"""
        ...

    def stop_logging(self, trunk: Trunk) -> None:
        """A call that was given up may log on: nobody else must hear that."""
        ...


class ModernFace(Face):
    """See the module."""

    def __init__(
        self, host: Host, discovered: bytes, clock: Callable[[], float], seat: Trunk | None = None
    ) -> None:
        """`seat`: where the session was before, alone."""
        trunk, is_alone = (seat, True) if seat is not None else host.seat()
        super().__init__(trunk, clock, is_alone=is_alone)
        self._host = host
        self._discovered = discovered
        self._capabilities = b"{}"
        self._client = b""
        self._level: str | None = None
        self._preface = self._preface_that_logs = Preface()
        self._logged: set[Id] = set()
        """Calls that the server was told to log."""
        self._resources: dict[str, None] = {}
        self._dialogues = Dialogues(self._say, self.take_request)
        self._listener: Subscription | None = None
        host.board(self)

    @property
    def wants_log(self) -> bool:
        """Does it hear what the server logs, this very moment?"""
        return bool(self._logged) or (self.is_alone and self._level is not None)

    def tell_changed(self) -> None:
        """Another instance may have other lists."""
        for kind in self._lists_that_change():
            self.hear_news(jsonrpc.notification(f"notifications/{kind}/list_changed"))

    # From the client

    def take_request(self, id: Id, method: str, params: bytes | Raw) -> None:
        """Answered here, or sent on with all that such a server wants to know."""
        if method in ANSWERED_HERE:
            self._answer_here(id, method, read_members(params))
            return
        preface = self._preface
        if self._level is not None and self._host.may_log(self):
            self._logged.add(id)
            preface = self._preface_that_logs
        data = bytes(params)
        written = preface.in_front_of(data)
        if written is not None:
            self.trunk.ride(id, method, written, self)
        else:
            self.trunk.ride(id, method, preface.within(data), self, token=progress_of_call(data))

    def _answer_here(self, id: Id, method: str, params: Members) -> None:
        if method == "initialize":
            self._initialize(id, params)
            return
        if method == "logging/setLevel":
            level = _text(params, "level")
            if not is_level(level):
                self._say(error_response(id, jsonrpc.INVALID_PARAMS, "params.level is no log level"))
                return
            self._level = level
            self._introduce_client()
        elif method == "resources/subscribe":
            uri = _text(params, "uri")
            if not has_room_for(self._resources, uri):
                self._say(error_response(id, INTERNAL_ERROR, "too many subscriptions"))
                return
            self._resources[uri] = None
            self._listen()
        elif method == "resources/unsubscribe":
            self._resources.pop(_text(params, "uri"), None)
            self._listen()
        self._say_result(id, b"{}")

    def _initialize(self, id: Id, params: Members) -> None:
        wanted = _text(params, "protocolVersion") if "protocolVersion" in params else ""
        capabilities = read_members(params.get("capabilities", b""))
        capabilities.pop("tasks", None)
        self._capabilities = write_members(capabilities)
        self._client = params.get("clientInfo", b"")
        self._introduce_client()
        version = wanted if wanted in HANDSHAKE_REVISIONS else LATEST
        self._say_result(id, handshake_result(self._discovered, version))

    def _introduce_client(self) -> None:
        """From now on the server is told this."""
        self._preface = Preface(self._capabilities, self._client)
        self._preface_that_logs = Preface(self._capabilities, self._client, self._level)

    def take_note(self, note: Envelope) -> None:
        """A cancellation, or something that we do not know; the rest concerned a session."""
        if note.method == "notifications/initialized":
            self._listen()
        elif note.method == "notifications/cancelled" and (id := cancelled_id(note.params)) is not None:
            self._dialogues.forget(id)
            self.leave(id, "the client cancelled it")
        elif is_extension(note.method):
            self.trunk.tell(jsonrpc.note_line(note.method, note.params))

    def take_response(self, response: Envelope) -> None:
        """An answer to what we asked for the server."""
        self._dialogues.take(response)

    # From the server

    def answered(self, ride: Ride, response: Envelope, now: float) -> None:
        """A result, an error, or questions."""
        if self._logged:
            self._logged.discard(ride.id)
        try:
            if response.error:
                self._dialogues.forget(ride.id)
                self._say_error(ride.id, for_handshake_error(response.error, ride.method))
            elif (result := reduced_result(response.result, ride.method)) is not None:
                self._dialogues.forget(ride.id)
                response.id, response.result = ride.id, Raw(result)
                self._say_answer(response, jsonrpc.result_line(ride.id, result))
            else:
                self._go_on(ride, read_members(response.result))
        except msgspec.DecodeError as error:
            self._dialogues.fail(ride.id, f"the server's answer is malformed: {error}")

    def _go_on(self, ride: Ride, members: Members) -> None:
        kind = members["resultType"]
        if kind == b'"input_required"':
            self._dialogues.go_on(ride, members, read_members(self._capabilities))
        else:
            text = f"the server answered with a result of the unknown type {kind.decode()}"
            self._dialogues.fail(ride.id, text)

    def failed(self, ride: Ride, failure: Failure, now: float) -> None:
        """The call will not be answered by the server."""
        self._logged.discard(ride.id)
        self._dialogues.forget(ride.id)
        super().failed(ride, failure, now)

    # News

    def _listen(self) -> None:
        """Open a listener for what is wanted now; then let the one before go, so that nothing is missed."""
        wanted: dict[str, object] = {f"{kind}ListChanged": True for kind in self._lists_that_change()}
        if self._resources:
            wanted["resourceSubscriptions"] = list(self._resources)
        before, self._listener = self._listener, None
        if wanted:
            params = self._preface.within(msgspec.json.encode({"notifications": wanted}))
            self._listener = subscription = Subscription(self)
            subscription.ride = self.trunk.ride(0, LISTEN, params, subscription, lasting=True)
        if before is not None and before.ride is not None:
            self.trunk.leave(before.ride, "replaced by another")

    def listen_again(self, ended: Subscription) -> None:
        """The server has ended it, or could not be had: not for ever."""
        if self._listener is ended:
            self._listener = None
            asyncio.get_running_loop().call_later(LISTEN_AGAIN_S, self._listen_if_deaf)

    def _listen_if_deaf(self) -> None:
        if self._listener is None and self._receiver is not None:
            self._listen()

    def _lists_that_change(self) -> list[str]:
        try:
            members = read_members(self._discovered)
            capabilities = msgspec.json.decode(members.get("capabilities", b"{}"), type=dict[str, object])
        except msgspec.DecodeError:
            return []
        return [
            kind
            for kind in LISTS
            if isinstance(entry := capabilities.get(kind), dict) and entry.get("listChanged")
        ]

    def pass_news(self, note: Envelope) -> None:
        """A notification of the listener, without what names it."""
        members = read_members(note.params)
        meta = read_members(members.pop("_meta", b""))
        meta.pop(SUBSCRIPTION_KEY, None)
        if meta:
            members["_meta"] = write_members(meta)
        self.hear_news(jsonrpc.note_line(note.method, write_members(members)))

    def leave(self, id: Id, reason: str) -> None:
        """The client wants no answer to this call."""
        super().leave(id, reason)
        if id in self._logged:
            self._logged.discard(id)
            self._host.stop_logging(self.trunk)

    def close(self, reason: str) -> None:
        """The session is over."""
        for id in list(self._logged):
            self.leave(id, reason)
        super().close(reason)
        self._dialogues.close()
        if self._listener is not None and self._listener.ride is not None:
            self.trunk.leave(self._listener.ride, reason)
            self._listener = None

    def release(self, reason: str) -> None:
        """The session needs it no longer."""
        self.close(reason)
        self._host.unboard(self, reason)


def _text(params: Members, name: str) -> str:
    """A member that must be a string. Raises msgspec.DecodeError."""
    return msgspec.json.decode(params.get(name, b"null"), type=str)
