"""A shared instance, as a session knows instances.

`initialize` is answered from what the server said once; calls ride under numbers of the trunk; log level
and subscriptions are this session's own, whatever others want.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import msgspec
from msgspec import Raw

from mooring.proxy.call_errors import Failure
from mooring.proxy.face import Face
from mooring.proxy.ports import Discarded
from mooring.proxy.riders import Errand, Ride
from mooring.proxy.sharing import Sharing
from mooring.proxy.trunk import Trunk
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Envelope,
    Id,
    error_response,
)
from mooring.wire.members import read_members
from mooring.wire.memory import has_room_for
from mooring.wire.params import cancelled_id
from mooring.wire.shared import initialize_result, level_of, shared_params

__all__ = ["SharedFace"]

OF_A_SESSION = frozenset(
    {"notifications/initialized", "notifications/roots/list_changed", "notifications/progress"}
)
"""What a client says that concerns a server of its own only."""


class SharedFace(Face):
    """See the module."""

    def __init__(self, sharing: Sharing, clock: Callable[[], float], trunk: Trunk | None = None) -> None:
        """`trunk`: where the session was before; otherwise it is chosen."""
        super().__init__(trunk or sharing.choose(), clock, is_alone=False)
        self.log_level: str | None = None
        self._sharing = sharing
        self._resources: dict[str, None] = {}
        sharing.board(self)

    # From the client

    def take_request(self, id: Id, method: str, params: bytes | Raw) -> None:
        """Answered here, or sent on under a number."""
        here = self._ANSWERED_HERE.get(method)
        if here is not None:
            here(self, id, params)
        elif method.startswith("tasks/"):
            text = "tasks are not offered by an instance that many clients share (--shared)"
            self._say(error_response(id, METHOD_NOT_FOUND, text))
        else:
            if self.log_level is not None:
                self._sharing.open_window(self.trunk, self)
            self._pass_on(id, method, params)

    def _pass_on(self, id: Id, method: str, params: bytes | Raw) -> None:
        data, token = shared_params(params)
        self.trunk.ride(id, method, data, self, token=token)

    def _initialize(self, id: Id, params: bytes | Raw) -> None:
        requested = msgspec.json.decode(read_members(params).get("protocolVersion", b'""'), type=str)
        if self.trunk.memory.initialize_result:
            self._introduce(id, requested, None)
        else:
            self.trunk.ride(0, "ping", b"", Errand(partial(self._introduce, id, requested)))

    def _introduce(self, id: Id, requested: str, failure: Failure | None) -> None:
        said = self.trunk.memory.initialize_result
        if said:
            self._say_result(id, initialize_result(said, requested))
        elif failure is not None and failure.reason == "initialize_refused":
            # As a word of the server: then another way to it is looked for.
            self._say(failure.response(id))
        elif failure is not None:
            self._say_failure(id, failure)

    def _set_level(self, id: Id, params: bytes | Raw) -> None:
        level = level_of(params)
        if level is None:
            self._say(error_response(id, INVALID_PARAMS, "params.level is no log level"))
            return
        self.log_level = level
        self._sharing.note_reader(self.trunk, self)
        self._say_result(id, b"{}")

    def _subscribe(self, id: Id, params: bytes | Raw) -> None:
        uri = _uri(params)
        if not has_room_for(self._resources, uri):
            self._say(error_response(id, INTERNAL_ERROR, "too many subscriptions"))
            return
        self._resources[uri] = None
        self._sharing.subscriptions.add(self.trunk, uri, self)
        self._pass_on(id, "resources/subscribe", params)

    def _unsubscribe(self, id: Id, params: bytes | Raw) -> None:
        uri = _uri(params)
        self._resources.pop(uri, None)
        if self._sharing.subscriptions.remove(self.trunk, uri, self):
            self._pass_on(id, "resources/unsubscribe", params)
        else:
            self._say_result(id, b"{}")

    _ANSWERED_HERE: ClassVar = {
        "initialize": _initialize,
        "logging/setLevel": _set_level,
        "resources/subscribe": _subscribe,
        "resources/unsubscribe": _unsubscribe,
    }

    def take_note(self, note: Envelope) -> None:
        """A cancellation of its own call; or something that we do not know."""
        if note.method == "notifications/cancelled":
            if (id := cancelled_id(note.params)) is not None:
                self.leave(id, "the client cancelled it")
        elif note.method not in OF_A_SESSION:
            self.trunk.tell(jsonrpc.note_line(note.method, note.params))

    def take_response(self, response: Envelope) -> None:
        """Nothing was asked."""

    # From the server

    def answered(self, ride: Ride, response: Envelope, now: float) -> None:
        """The answer, under the client's own id."""
        if response.error and ride.method == "resources/subscribe":
            self._give_up_resource(ride)
        response.id = ride.id
        self._say_answer(response, jsonrpc.with_id(response, ride.id))

    def failed(self, ride: Ride, failure: Failure, now: float) -> None:
        """The call will not be answered by the server."""
        if ride.method == "resources/subscribe":
            self._give_up_resource(ride)
        super().failed(ride, failure, now)

    def _give_up_resource(self, ride: Ride) -> None:
        uri = msgspec.json.decode(read_members(ride.params).get("uri", b'""'), type=str)
        self._resources.pop(uri, None)
        self._sharing.subscriptions.remove(self.trunk, uri, self)

    # Endings

    def move_out(self, why: str) -> None:
        """See `Guest`. The session hears that its instance has ended, and gets another one."""
        receiver = self._receiver
        self.release(why)
        if receiver is not None:
            receiver.on_gone(Discarded(why))

    def release(self, reason: str) -> None:
        """The session is over, or sleeps: the instance stays."""
        self.close(reason)
        for uri in self._resources:
            self._sharing.subscriptions.unsubscribe(self.trunk, uri, self)
        self._sharing.leave(self)


def _uri(params: bytes | Raw) -> str:
    return msgspec.json.decode(read_members(params).get("uri", b"null"), type=str)
