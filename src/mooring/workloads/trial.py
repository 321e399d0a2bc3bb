"""Does the server work? We speak to an instance ourselves, and learn what there is to learn on the way."""

import asyncio
import logging
from collections.abc import Callable

from mooring.errors import MooringError, ServerFailed
from mooring.proxy.proxy import Proxy
from mooring.supervise.reasons import ReasonCode
from mooring.supervise.supervisor import Supervisor
from mooring.wire.failures import Failure
from mooring.wire.memory import Handshake
from mooring.wire.modern import DISCOVER
from mooring.wire.revisions import MODERN
from mooring.wire.verdicts import FOR_PEOPLE, OTHER_ERA
from mooring.workloads.makers import Instance
from mooring.workloads.probe import Probe
from mooring.workloads.words import NOT_MCP_HINT

__all__ = ["Trial"]

log = logging.getLogger("mooring.workload")

SLOW_START_S = 5.0
"""After this, whoever looks at the terminal is told that we still wait."""


class Trial:
    """Of one workload, again and again."""

    def __init__(
        self,
        name: str,
        proxy: Proxy,
        supervisor: Supervisor,
        on_obstacle: Callable[[Failure], None] = lambda error: None,
        hint: str = NOT_MCP_HINT,
    ) -> None:
        """`on_obstacle`: through no fault of the server it could not be spoken to, for now.

        `hint`: what may be wrong with one that does not answer.
        """
        self.revision = ""
        """Of the protocol, as the server has agreed to it when Mooring spoke to it."""
        self.on_met: Callable[[Handshake], None] = lambda handshake: None
        """Hears what the server says of itself."""
        self._name = name
        self._proxy = proxy
        self._supervisor = supervisor
        self._on_obstacle = on_obstacle
        self.is_elsewhere = False
        """It is not ours to start; and whoever it asks for a login can do that with Mooring."""
        self._hint = hint

    @property
    def _bound_s(self) -> float:
        return self._proxy.policy.handshake_timeout_s

    async def run(self, channel: Instance, works: Callable[[], None]) -> str:
        """Speak to an instance; `works` is called as soon as it does. Returns why it is not needed then."""
        probe, noise = Probe(self._name, self._proxy.noise), self._proxy.noise
        if channel.speaks_modern:
            was_known = self._proxy.stateless.discovery is not None
            if await self._is_modern():
                if was_known and (failure := await self.ask(channel)) is not None:
                    return failure.message
                works()
                return "it works"
        slow = asyncio.get_running_loop().call_later(SLOW_START_S, self._tell_slow, channel)
        try:
            handshake = await probe.speak(channel, self._bound_s)
        except ServerFailed as error:
            error.message = noise.mask(error.message)
            if (trouble := channel.trouble) is not None and trouble.reason not in OTHER_ERA:
                return self._tell_trouble(trouble)
            if self.is_elsewhere and error.code == "initialize_timeout":
                return self._tell_trouble(Failure("unreachable", error.message))
            was_known = self._proxy.stateless.discovery is not None
            if error.code == "initialize_refused" and await self._speaks_modern():
                # If the refusal was its own, that shows that it works; as does what was found out just now.
                if was_known and trouble is not None and (failure := await self.ask(channel)) is not None:
                    return failure.message
                works()
                return "it speaks another era"
            if self.is_elsewhere and trouble is not None and trouble.reason in FOR_PEOPLE:
                return self._tell_trouble(trouble)
            if error.code != "server_exited":
                error.hint = error.hint or self._hint
                self._supervisor.cannot_start(error, code=ReasonCode.INITIALIZE_FAILED)
            return error.message
        finally:
            slow.cancel()
        self.revision = handshake.protocol_version
        self.on_met(handshake)
        works()
        self._proxy.tell_handshakes(taken=True)
        await self._learn_of_pings(probe, channel)
        return "it works"

    async def ask(self, channel: Instance) -> Failure | None:
        """One that is known to speak 2026-07-28: why it does not answer, if it does not.

        Any answer of its own will do; what Mooring says in its place is none.
        """
        answered = await Probe(self._name, self._proxy.noise).answers(channel, DISCOVER, self._bound_s)
        silence = Failure("unreachable", f"it did not answer {DISCOVER} within {self._bound_s:g} s")
        failure = channel.trouble if answered else silence
        return failure and failure._replace(message=self._tell_trouble(failure))

    def heard(self, channel: Instance) -> bool:
        """A session of a client's was the attempt, and has come to nothing: does that say enough?"""
        trouble = channel.trouble
        if trouble is None or trouble.reason not in FOR_PEOPLE - OTHER_ERA:
            return False
        self._tell_trouble(trouble)
        return True

    def _tell_trouble(self, trouble: Failure) -> str:
        """What answered was no server of MCP; or nobody did, whom we could end and begin anew."""
        trouble = trouble._replace(message=self._proxy.noise.mask(trouble.message))
        if trouble.reason in FOR_PEOPLE:
            error = ServerFailed(trouble.message, code=trouble.reason, hint=self._hint_for(trouble.reason))
            # Of one that we start its exit would be the reason.
            code = ReasonCode(trouble.reason) if self.is_elsewhere else ReasonCode.INITIALIZE_FAILED
            self._supervisor.cannot_start(error, code=code)
        else:
            self._on_obstacle(trouble)
        return trouble.message

    def _hint_for(self, reason: str) -> str:
        if reason == "not_mcp":
            return self._hint
        return f"mooring login {self._name}" if reason == "unauthorized" and self.is_elsewhere else ""

    async def _learn_of_pings(self, probe: Probe, channel: Instance) -> None:
        health = self._proxy.health
        if health.interval_s is None:
            return
        if await probe.answers(channel, "ping", health.timeout_s):
            health.heard()
        else:
            health.heard_nothing()

    async def _speaks_modern(self) -> bool:
        """It refuses handshakes: is it a server of the era that has none?"""
        self._proxy.tell_handshakes(taken=False)
        return await self._is_modern()

    async def _is_modern(self) -> bool:
        """Ask, without a handshake."""
        try:
            is_modern = (await self._proxy.stateless.discover()).is_modern
        except MooringError:
            return False
        self.revision = MODERN if is_modern else ""
        return is_modern

    def _tell_slow(self, channel: Instance) -> None:
        log.info(
            "%s (%s) has not answered initialize yet; it may take up to %g s",
            self._name,
            channel.title,
            self._proxy.policy.handshake_timeout_s,
            extra={"event": "slow_start", "server": self._name, "pid": channel.pid},
        )
