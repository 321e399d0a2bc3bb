"""Requests of 2026-07-28 to a server of the handshake era.

Each goes to an instance that was introduced with the capabilities of its client (`HandshakePool`): one
that others use too if the server cannot want anything of this client, else one of its own for the time
of the call (`BridgedCall`). Who listens for news hears those of all instances of its kind (`Listeners`).
"""

from collections.abc import Callable
from functools import lru_cache, partial

import msgspec

from mooring.errors import MooringError
from mooring.proxy.bridged_call import BridgedCall
from mooring.proxy.call_errors import Failure
from mooring.proxy.handshake_pool import HandshakePool, PoolKey
from mooring.proxy.listening import Listeners
from mooring.proxy.passed_trunk import PassedTrunk
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Channel, ExitLike
from mooring.proxy.riders import Errand
from mooring.proxy.sharing import Sharing
from mooring.proxy.stateless_call import StatelessCall
from mooring.proxy.subscriptions import Subscriptions
from mooring.proxy.trunk import Trunk
from mooring.proxy.trunks import Trunks
from mooring.wire import jsonrpc
from mooring.wire.eras import can_be_asked, discovery
from mooring.wire.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, Envelope
from mooring.wire.members import Members, read_members, write_members
from mooring.wire.modern import DISCOVER, INTERACTIVE, LEVEL_KEY, LISTEN, LOG, ModernRequest
from mooring.wire.notes import is_extension
from mooring.wire.params import cancelled_id
from mooring.wire.request_state import Sealer, digest
from mooring.wire.shared import is_level

__all__ = ["HandshakeServer"]

REPLICA_LOST = (
    "the replica that held this call is gone, and the call with it; it may have been executed in part: "
    "see what was done, and call again without requestState if that does no harm"
)


class HandshakeServer:
    """See the module."""

    def __init__(
        self,
        trunks: Trunks,
        policy: SessionPolicy,
        clock: Callable[[], float],
        sharing: Sharing | None = None,
    ) -> None:
        self.sealer = Sealer()
        self._policy = policy
        self._clock = clock
        self._sharing = sharing
        self._pool = HandshakePool(trunks, self, policy.max_sessions, sharing)
        self._calls: dict[BridgedCall, None] = {}
        self._parked: dict[str, BridgedCall] = {}
        """Those to which a client may come back, by their id."""
        self._leased: dict[Trunk, BridgedCall] = {}
        subscriptions = Subscriptions() if sharing is None else sharing.subscriptions
        self._listeners = Listeners(self._pool, subscriptions, clock)
        self._pool.is_needed = self._listeners.needs
        self._pool.on_made = self._listeners.follow
        self._pool.on_ended = subscriptions.forget
        self.has_worked = False
        """An instance has taken a handshake."""
        self._about: tuple[bytes, bytes, bytes] = (b"", b"", b"")
        """What an instance said to `initialize`, and what was made of it: nearly always the same."""
        if sharing is not None:
            sharing.others = self
            sharing.on_made = self._listeners.follow

    @property
    def has_listeners(self) -> bool:
        """Somebody waits for news."""
        return len(self._listeners) > 0

    def needs(self, trunk: Trunk) -> bool:
        """Does somebody wait for the news of this one?"""
        return self._listeners.needs(trunk)

    @property
    def parked_calls(self) -> int:
        """Those that wait for their clients to answer a question."""
        return len(self._parked)

    @property
    def calls_in_flight(self) -> int:
        """Those that a client waits for."""
        return sum(call.is_running for call in self._calls)

    def take(self, call: StatelessCall) -> None:
        """Serve it."""
        request = call.request
        if (refusal := _refusal(request)) is not None:
            call.refuse(*refusal, self._clock())
            return
        declared, capabilities = _declared(request.capabilities)
        key = self._pool.key(call.principal, capabilities)
        if request.method == DISCOVER:
            self._discover(call, key)
        elif request.method == LISTEN:
            self._listen(call, key)
        elif request.request_state is not None:
            self._resume(call, declared, key)
        else:
            self._begin(call, declared, key)

    # Calls

    def _begin(self, call: StatelessCall, declared: Members, key: PoolKey) -> None:
        request = call.request
        try:
            params = request.stripped_params()
        except msgspec.DecodeError as error:
            call.refuse(INVALID_PARAMS, f"malformed params: {error}", self._clock())
            return
        alone = self._sharing is None and (
            request.log_level is not None or (request.method in INTERACTIVE and can_be_asked(declared))
        )
        trunk = (self._pool.lease if alone else self._pool.shared)(key, request.client)
        if trunk is None:
            self._refuse_full(call)
            return
        bridged = BridgedCall(call, declared, params, owner=self, clock=self._clock)
        bridged.trunk = trunk
        self._calls[bridged] = None
        if alone:
            self._leased[trunk] = bridged
        if self._sharing is not None:
            self._begin_shared(bridged, trunk)
        elif request.log_level is None or trunk.log_level == request.log_level:
            bridged.begin(trunk)
        else:
            trunk.log_level = request.log_level
            level = msgspec.json.encode({"level": request.log_level})
            trunk.ride(0, "logging/setLevel", level, Errand(lambda _: bridged.begin(trunk)))

    def _begin_shared(self, bridged: BridgedCall, trunk: Trunk) -> None:
        if self._sharing is not None and bridged.log_level is not None:
            self._sharing.note_reader(trunk, bridged)
            self._sharing.open_window(trunk, bridged)
        bridged.begin(trunk)

    def _resume(self, call: StatelessCall, declared: Members, key: PoolKey) -> None:
        now, state = self._clock(), call.request.request_state or ""
        try:
            opened = self.sealer.open(state, self.digest(call), now)
        except msgspec.DecodeError as error:
            call.refuse(INVALID_PARAMS, f"malformed params: {error}", now)
            return
        if opened.claims is None and self.sealer.is_of_another_replica(state):
            call.fail(Failure("replica_lost", REPLICA_LOST), now)
        elif opened.claims is None:
            call.refuse(INVALID_PARAMS, opened.reason, now)
        elif not opened.claims.call:
            self._begin(call, declared, key)
        elif (bridged := self._parked.get(opened.claims.call)) is None:
            text = "the call that waited for this is no longer there; it may have been executed in part"
            call.fail(Failure("call_lost", text), now)
        else:
            bridged.resume(call, opened.claims)

    def digest(self, call: StatelessCall) -> bytes:
        """See `CallOwner`."""
        members = read_members(call.request.params)
        for name in ("_meta", "inputResponses", "requestState"):
            members.pop(name, None)
        return digest(call.principal, call.request.method, write_members(members))

    def _refuse_full(self, call: StatelessCall) -> None:
        text = f"all {self._policy.max_sessions} instances are in use (--max-sessions)"
        call.fail(Failure("too_many_sessions", text, retryable=True), self._clock())

    # Of the server itself

    def _discover(self, call: StatelessCall, key: PoolKey) -> None:
        trunk = self._pool.shared(key, call.request.client)
        if trunk is None:
            self._refuse_full(call)
        else:
            trunk.ride(0, "ping", b"", Errand(partial(self._tell_of_itself, call, trunk)))

    def _tell_of_itself(self, call: StatelessCall, trunk: Trunk, failure: Failure | None) -> None:
        if failure is not None and not trunk.memory.initialize_result:
            call.fail(failure, self._clock())
        else:
            call.answer_result(self._made_of(trunk)[1], self._clock())

    def server_of(self, trunk: Trunk) -> bytes:
        """See `CallOwner`."""
        return self._made_of(trunk)[2]

    def _made_of(self, trunk: Trunk) -> tuple[bytes, bytes, bytes]:
        said = trunk.memory.initialize_result
        if self._about[0] != said:
            result, server = discovery(said)
            self._about = (said, result, server)
        return self._about

    def _listen(self, call: StatelessCall, key: PoolKey) -> None:
        wanted = self._listeners.read(call)
        if wanted is None:
            return
        trunk = self._pool.shared(key, call.request.client)
        if trunk is None:
            self._refuse_full(call)
        else:
            call.reply.begin_stream(self._clock())
            trunk.ride(0, "ping", b"", Errand(partial(self._listeners.add, call, wanted, key, trunk)))

    # What calls tell

    def parked(self, call: BridgedCall) -> None:
        """See `CallOwner`."""
        self._parked[call.id] = call

    def over(self, call: BridgedCall) -> None:
        """See `CallOwner`."""
        self._calls.pop(call, None)
        self._parked.pop(call.id, None)
        if self._sharing is not None and call.trunk is not None:
            self._sharing.forget_reader(call.trunk, call)
        if call.trunk is None or self._leased.pop(call.trunk, None) is None:
            return
        if call.is_settled and not call.trunk.has_strays:
            self._pool.give_back(call.trunk)
        else:
            # It may still ask or log on behalf of this one: nobody else must hear that.
            self._pool.discard(call.trunk)

    # What trunks tell

    def on_question(self, trunk: Trunk, request: Envelope, line: bytes) -> None:
        """Of an instance that serves one call alone it can only be about that one."""
        call = self._leased.get(trunk)
        if request.method == "ping":
            trunk.answer(jsonrpc.result_response(request.request_id, {}))
        elif call is not None:
            call.ask(trunk, request)
        else:
            trunk.refuse(request, "no client can be asked here")

    def on_note(self, trunk: Trunk, note: Envelope, line: bytes) -> None:
        """What can only be about the call that has the instance to itself; or news for whoever listens."""
        call = self._leased.get(trunk)
        if note.method == LOG:
            if call is not None:
                call.hear_log(line)
        elif note.method == "notifications/cancelled":
            if call is not None and (asked := cancelled_id(note.params)) is not None:
                call.withdraw(asked)
        elif is_extension(note.method):
            if call is not None:
                call.hear_note(line)
        else:
            self._listeners.hear(trunk, note)

    def on_up(self, trunk: Trunk, again: bool) -> None:
        """Another instance may have other lists."""
        self.has_worked = True
        if again:
            self._listeners.tell_changed(trunk)

    def on_lost(self, trunk: Trunk, exit: ExitLike) -> None:
        """Whoever listens wants another one."""
        trunk.log_level = None
        self.on_let_go(trunk)
        if self._listeners.needs(trunk):
            trunk.wake()

    def on_let_go(self, trunk: Trunk) -> None:
        """The next instance has asked nothing."""
        if (call := self._leased.get(trunk)) is not None:
            call.forget_questions()

    def on_changed(self, trunk: Trunk, error: MooringError) -> None:
        """Whoever listens has heard that everything may differ; calls need no session."""

    def on_empty(self, trunk: Trunk) -> None:
        """It is kept until it has been idle for long."""

    def on_parted(self, trunk: Trunk) -> None:
        """Requests go there, too; whoever listens is told that this was all."""
        self._pool.part(trunk)

    def adopt(self, passed: PassedTrunk, channel: Channel) -> bool:
        """See `Service`."""
        self.has_worked = True
        return self._pool.adopt(passed, channel)

    # Time and endings

    def tick(self, now: float) -> None:
        """Keep-alives, calls to which nobody came back, instances that were let go."""
        for call in list(self._calls):
            call.tick(now)
        self._listeners.tick(now)
        self._pool.tidy()

    def hang_up(self) -> None:
        """Whoever listens is told that this was all."""
        self._listeners.hang_up()

    def cut(self, reason: str, message: str) -> int:
        """End every call now."""
        self.hang_up()
        failure = Failure(reason, message)
        return sum(call.fail(failure) for call in list(self._calls))


def _refusal(request: ModernRequest) -> tuple[int, str] | None:
    """Why a request makes no sense to a handshake server; None if it does."""
    if request.log_level is not None and not is_level(request.log_level):
        return INVALID_PARAMS, f"{LEVEL_KEY} is no log level of the protocol"
    if request.method.startswith("tasks/"):
        return METHOD_NOT_FOUND, "tasks are not offered by a server of the handshake era"
    return None


@lru_cache(maxsize=64)
def _declared(capabilities: bytes) -> tuple[Members, bytes]:
    """What a client declares that means something here; and the same as JSON, in one order.

    Clients of a kind say the same with every request; how long that may be is bounded (`wire.modern`).
    """
    declared = read_members(capabilities)
    for name in ("extensions", "tasks"):
        declared.pop(name, None)
    return declared, write_members(dict(sorted(declared.items())))
