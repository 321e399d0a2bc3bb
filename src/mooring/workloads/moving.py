"""Sessions and instances that go from one Mooring to the next, and go on there.

What goes is a `Departure`: a session with the instance that it has to itself, an instance that many use, or a
spare. Nothing is under way with it. It is held while it is told of; then it goes, or it is called off.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from mooring.errors import RemoteProtocolError
from mooring.proxy.face import Face
from mooring.proxy.passed_trunk import PassedTrunk
from mooring.proxy.passing import PassedSession, pack
from mooring.proxy.proxy import RESUMED, Proxy
from mooring.proxy.session import Session
from mooring.proxy.trunk import Trunk
from mooring.supervise.supervisor import Supervisor
from mooring.workloads.crew import Crew
from mooring.workloads.makers import Instance, Passed

__all__ = ["Departure", "Moving", "Told"]


class Told(NamedTuple):
    """What is told of a departure."""

    packed: PassedSession | PassedTrunk | None
    """None: it is a spare."""
    instance: Passed | None


class Departure:
    """See the module."""

    def __init__(
        self,
        crew: Crew,
        proxy: Proxy,
        instance: Instance | None,
        *,
        session: Session | None = None,
        trunk: Trunk | None = None,
        on_gone: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_gone`: what is to be done with the instance that stays."""
        self.session = session
        self._on_gone = on_gone
        self._crew = crew
        self._proxy = proxy
        self._instance = instance
        self._trunk = trunk

    def hold(self) -> None:
        """Hear nothing of its instance, say nothing to it, and lend it to nobody."""
        if self._instance is not None:
            self._crew.set_aside(self._instance)
            self._instance.hold()

    def call_off(self) -> None:
        """It stays."""
        if self._instance is not None and self._crew.has(self._instance):
            self._crew.keep(self._instance)
            self._instance.go_on()

    def tell(self, trunks: "set[Trunk]") -> "Told | None":
        """What is told of it; None: it was an instance, and has ended meanwhile.

        `trunks`: those of which was told, so that sessions find them there.
        """
        passed = self._instance.describe() if self._instance is not None else None
        if self.session is not None:
            face = self.session.link.channel
            rides = isinstance(face, Face) and face.trunk in trunks
            return Told(pack(self.session, keeps_instance=passed is not None or rides), passed)
        if passed is None:
            return None
        if self._trunk is None:
            return Told(None, passed)
        trunks.add(self._trunk)
        return Told(self._trunk.pack(), passed)

    def go(self) -> None:
        """Another Mooring has it. First the trunk: what its session takes leave of is not to hear of that."""
        if self._trunk is not None:
            self._proxy.trunks.part(self._trunk)
        if self.session is not None:
            self._proxy.part(self.session)
        if self._instance is not None and self._crew.has(self._instance):
            self._crew.part_with(self._instance)
        self._on_gone()


class Moving:
    """What of a workload can go, and what comes."""

    def __init__(self, crew: Crew, proxy: Proxy, supervisor: Supervisor) -> None:
        self._crew = crew
        self._proxy = proxy
        self._supervisor = supervisor
        self.on_useless: Callable[[Instance], None] = lambda instance: None
        """Hears of one that came and that nobody can use."""

    # Going

    def all(self) -> list[Departure]:
        """All that can go now: first what sessions find there when they come."""
        sessions = [one for session in self._sessions() if (one := self.session(session)) is not None]
        going = {one.session for one in sessions}
        used = {
            session.link.channel.trunk
            for session in self._sessions()
            if session not in going and isinstance(session.link.channel, Face)
        }
        trunks = [one for trunk, one in self._trunks() if trunk not in used]
        return [*self._spares(), *trunks, *sessions]

    def session(self, session: Session) -> Departure | None:
        """One that comes back by its id, if it can go now."""
        if not session.is_quiet:
            return None
        channel, trunk = session.link.channel, None
        if isinstance(channel, Face):
            trunk = channel.trunk if channel.is_alone else None
            channel = trunk.instance if trunk is not None else None
            if trunk is not None and channel is None:
                return None
        lent = self._crew.lent.get(channel) if channel is not None and session.link.is_live else None
        if lent is None:
            return Departure(self._crew, self._proxy, None, session=session)
        if lent.instance.stays:
            let_go = partial(self.on_useless, lent.instance)
            return Departure(self._crew, self._proxy, None, session=session, on_gone=let_go)
        if lent.instance.describe() is None:
            return None
        return Departure(self._crew, self._proxy, lent.instance, session=session, trunk=trunk)

    def _sessions(self) -> Iterator[Session]:
        return (session for session in self._proxy.sessions.values() if session.transport in RESUMED)

    def _trunks(self) -> Iterator[tuple[Trunk, Departure]]:
        for trunk in self._proxy.trunks.that_can_go():
            lent = self._crew.lent.get(trunk.instance) if trunk.instance is not None else None
            if lent is not None and lent.instance.describe() is not None:
                yield trunk, Departure(self._crew, self._proxy, lent.instance, trunk=trunk)

    def _spares(self) -> Iterator[Departure]:
        for spare in self._crew.spares:
            if spare.describe() is not None:
                yield Departure(self._crew, self._proxy, spare)

    # Coming

    def adopt(self, passed: PassedSession, came: Passed | None) -> None:
        """Go on with a session, and its instance if it has one. Raises as `Proxy.adopt` does."""
        instance = self._take_in(came) if came is not None else None
        is_used = False
        try:
            is_used = self._proxy.adopt(passed, instance)
        finally:
            if instance is not None and not is_used:
                self.on_useless(instance)

    def adopt_instance(self, passed: PassedTrunk | None, came: Passed) -> None:
        """Go on with one that many use; or, if nothing is told of it, with a spare."""
        if passed is None:
            instance = self._crew.maker.adopt(came)
            self._supervisor.instance_started(instance.n, instance.started_at)
            self._crew.spares.append(instance)
            return
        instance = self._take_in(came)
        try:
            is_used = self._proxy.adopt_trunk(passed, instance)
        except RemoteProtocolError:
            is_used = False
        if not is_used:
            self.on_useless(instance)

    def _take_in(self, came: Passed) -> Instance:
        """One that works."""
        instance = self._crew.maker.adopt(came)
        self._crew.lend(instance, instance.started_at)
        self._crew.working.add(instance)
        self._supervisor.instance_started(instance.n, instance.started_at)
        self._supervisor.instance_spoke(instance.n)
        return instance
