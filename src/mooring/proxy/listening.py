"""`subscriptions/listen` in front of a server of the handshake era: its news, for whoever asked for them.

Invariants:
- The acknowledgement is the first message of a listener, and names what it will hear.
- A listener hears nothing that it did not ask for, and the news of its own principal's instances only.
- A resource is subscribed to once, for all who listen for it, on each of their instances: it may change by
  a call on any of them. The last one to go unsubscribes.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from mooring.proxy.call_errors import Failure
from mooring.proxy.handshake_pool import HandshakePool, PoolKey
from mooring.proxy.stateless_call import StatelessCall
from mooring.proxy.subscriptions import UPDATED, Subscriptions, updated_uri
from mooring.proxy.trunk import Trunk
from mooring.wire.eras import under_subscription, with_subscription
from mooring.wire.jsonrpc import INVALID_PARAMS, Envelope
from mooring.wire.modern import ACKNOWLEDGED
from mooring.wire.shared import covers
from mooring.wire.surrogates import tolerant

__all__ = ["Listeners"]

MOST_LISTENERS = 1024
MOST_RESOURCES = 1024
"""Of one listener."""


LISTS = {
    f"notifications/{kind}/list_changed": f"{kind}_list_changed" for kind in ("tools", "prompts", "resources")
}
"""Notification → the member of a filter that asks for it."""


class Filter(Struct, rename="camel", omit_defaults=True):
    """What is asked for."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class _Params(Struct):
    notifications: Filter


_read_params = tolerant(msgspec.json.Decoder(_Params).decode)


class _Listener(Struct, eq=False):
    call: StatelessCall
    key: PoolKey
    trunk: Trunk
    filter: Filter

    def wants(self, method: str, uri: str | None) -> bool:
        """Did it ask for this?"""
        if method == UPDATED:
            wanted = self.filter.resource_subscriptions or ()
            return uri is not None and any(covers(resource, uri) for resource in wanted)
        return method in LISTS and bool(getattr(self.filter, LISTS[method]))

    def tell(self, method: str, params: bytes | Raw, now: float) -> None:
        try:
            line = with_subscription(method, params, self.call.request.id)
        except msgspec.DecodeError:  # no object: then there is nothing in it
            line = with_subscription(method, b"", self.call.request.id)
        self.call.reply.note(line, now)


class Listeners:
    """All of one server."""

    def __init__(self, pool: HandshakePool, subscriptions: Subscriptions, clock: Callable[[], float]) -> None:
        self._pool = pool
        self._subscriptions = subscriptions
        self._clock = clock
        self._listeners: list[_Listener] = []

    def read(self, call: StatelessCall) -> Filter | None:
        """What it asks for; None if that cannot be read, which it is told."""
        try:
            return _read_params(call.request.params).notifications
        except msgspec.DecodeError as error:
            call.refuse(INVALID_PARAMS, f"params.notifications is malformed: {error}", self._clock())
            return None

    def add(
        self, call: StatelessCall, wanted: Filter, key: PoolKey, trunk: Trunk, failure: Failure | None
    ) -> None:
        """One more; its instance has been spoken to."""
        now = self._clock()
        if failure is not None and not trunk.memory.initialize_result:
            call.fail(failure, now)
            return
        if call.reply.is_over:
            return
        if len(self._listeners) >= MOST_LISTENERS:
            call.fail(Failure("too_many_listeners", f"{MOST_LISTENERS} listen already", retryable=True), now)
            return
        listener = _Listener(call, key, trunk, _honoured(wanted, trunk))
        self._listeners.append(listener)
        call.reply.on_gone(lambda: self._remove(listener))
        told = b'{"notifications":%b}' % msgspec.json.encode(listener.filter)
        listener.tell(ACKNOWLEDGED, told, now)
        for instance in self._pool.beside(trunk):
            self._subscribe(instance, listener)

    def follow(self, trunk: Trunk) -> None:
        """Another instance is there."""
        key = self._pool.key_of(trunk)
        for listener in self._listeners:
            if listener.key == key:
                self._subscribe(trunk, listener)

    def _subscribe(self, trunk: Trunk, listener: _Listener) -> None:
        for uri in listener.filter.resource_subscriptions or ():
            self._subscriptions.subscribe(trunk, uri, listener)

    def _remove(self, listener: _Listener) -> None:
        if listener not in self._listeners:
            return
        self._listeners.remove(listener)
        for trunk in self._pool.beside(listener.trunk):
            for uri in listener.filter.resource_subscriptions or ():
                self._subscriptions.unsubscribe(trunk, uri, listener)

    def needs(self, trunk: Trunk) -> bool:
        """Does somebody hear this one?"""
        return any(listener.trunk is trunk for listener in self._listeners)

    def hear(self, trunk: Trunk, note: Envelope) -> None:
        """An instance has news."""
        method, now = note.method or "", self._clock()
        uri = updated_uri(note.params) if method == UPDATED else None
        key = self._pool.key_of(trunk)
        for listener in list(self._listeners):
            if listener.key == key and listener.wants(method, uri):
                listener.tell(method, note.params, now)

    def tell_changed(self, trunk: Trunk) -> None:
        """Another instance took over: every list may differ now."""
        now, key = self._clock(), self._pool.key_of(trunk)
        for listener in list(self._listeners):
            for method in LISTS:
                if listener.key == key and listener.wants(method, None):
                    listener.tell(method, b"{}", now)

    def __len__(self) -> int:
        return len(self._listeners)

    def tick(self, now: float) -> None:
        """Show that somebody is there; and if the server could not be had, try again."""
        for listener in self._listeners:
            listener.call.reply.tick(now)
            listener.trunk.wake()

    def hang_up(self) -> None:
        """A proper end for all."""
        for listener in list(self._listeners):
            result = under_subscription(b'{"resultType":"complete"}', listener.call.request.id)
            listener.call.answer_result(result, self._clock())
            self._remove(listener)


def _honoured(wanted: Filter, trunk: Trunk) -> Filter:
    """What the server can tell of."""
    capabilities = trunk.memory.handshake.capabilities if trunk.memory.handshake else {}

    def has(kind: str, what: str) -> bool:
        entry = capabilities.get(kind)
        return isinstance(entry, dict) and bool(entry.get(what))

    uris = (wanted.resource_subscriptions or [])[:MOST_RESOURCES]
    return Filter(
        tools_list_changed=True if wanted.tools_list_changed and has("tools", "listChanged") else None,
        prompts_list_changed=True if wanted.prompts_list_changed and has("prompts", "listChanged") else None,
        resources_list_changed=True
        if wanted.resources_list_changed and has("resources", "listChanged")
        else None,
        resource_subscriptions=uris if uris and has("resources", "subscribe") else None,
    )
