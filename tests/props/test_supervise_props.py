"""Whatever happens in whatever order: the promises of the supervisor hold."""

import asyncio
import itertools
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.errors import MooringError, ServerFailed
from mooring.supervise import RestartAfter, RestartHistory, RestartPolicy, Snapshot, State, Supervisor, decide
from tests.unit.test_supervise_supervisor import FakeTime, turn

POLICY = RestartPolicy()
CAP_S = POLICY.delays_s[-1]
OVER = {State.STOPPING, State.STOPPED}

SPANS_S = st.one_of(
    st.sampled_from([0.0, 0.01, 0.5, 1.0, 5.0, 30.0, 59.9, 60.0, 66.0, 700.0]), st.floats(0, 100)
)
CHOICES = st.integers(0, 7)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.just(0)),
        st.tuples(st.just("spoke"), CHOICES),
        st.tuples(st.just("exit"), CHOICES),
        st.tuples(st.just("exit"), CHOICES),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("advance"), SPANS_S),
        st.tuples(st.just("advance"), SPANS_S),
        st.tuples(st.just("admit"), st.just(0)),
        st.tuples(st.just("admit"), st.just(0)),
        st.tuples(st.just("cancel"), CHOICES),
        st.tuples(st.just("cannot_start"), st.just(0)),
        st.tuples(st.just("skip_wait"), st.just(0)),
        st.tuples(st.just("idle"), st.just(0)),
        st.tuples(st.just("turn"), st.just(0)),
        st.tuples(st.sampled_from(["drain", "stop", "stopped"]), st.just(0)),
    ),
    max_size=60,
)


class World:
    """A supervisor in the hands of chance, watched after every step."""

    def __init__(self, policy: RestartPolicy, random: Callable[[], float]) -> None:
        self.time = FakeTime()
        self.policy = policy
        self.told: list[Snapshot] = []
        self.last = 0
        self.live: dict[int, tuple[float, bool]] = {}
        self.waiters: list[asyncio.Task[State]] = []
        self.backoffs: list[float] = []
        self.tries: list[float] = []
        self.it = Supervisor(
            policy,
            clock=self.time,
            call_later=self.time.call_later,
            random=random,
            on_change=self.changed,
        )
        self.first = self.it.snapshot()

    def changed(self, snapshot: Snapshot) -> None:
        assert snapshot == self.it.snapshot(), "told before it was set"
        before = self.told[-1] if self.told else self.first
        assert (before.state, before.reason) != (snapshot.state, snapshot.reason), "told, but nothing changed"
        if before.state in OVER:
            assert snapshot.state in OVER
        if snapshot.state is State.BACKOFF:
            assert snapshot.retry_in_s is not None
            step = self.policy.delays_s[min(snapshot.attempt, len(self.policy.delays_s)) - 1]
            assert step - 1e-6 <= snapshot.retry_in_s <= 1.1 * step + 1e-6
            assert snapshot.retry_in_s <= 1.1 * CAP_S + 1e-6
        self.told.append(snapshot)

    def check(self) -> None:
        seen = self.it.snapshot()
        last = self.told[-1] if self.told else self.first
        assert (seen.state, seen.reason) == (last.state, last.reason), "changed, but not told"
        assert len(self.time.timers) == (1 if seen.state is State.BACKOFF else 0)
        assert 0 <= seen.attempt <= self.policy.attempts
        assert len(self.it._history.exits) <= self.policy.max_exits + 1
        assert seen.ended_for_good == (seen.state is State.FAILED and not self.policy.restart)
        if seen.state in OVER | {State.READY, State.DRAINING}:
            assert seen.retry_at is None

    async def admit(self) -> State:
        before = self.it.state
        await self.it.admit()
        if before is State.FAILED:
            self.tries.append(self.time.now)
        return self.it.state

    def pick(self, choice: int) -> int | None:
        return sorted(self.live)[choice % len(self.live)] if self.live else None

    def start(self) -> int:
        self.last += 1
        self.live[self.last] = (self.time.now, False)
        self.it.instance_started(self.last, self.time.now)
        return self.last

    def exit(self, n: int | None) -> None:
        if n is not None:
            started_at, _ = self.live.pop(n)
            others = any(spoke for _, spoke in self.live.values())
            self.it.instance_exited(n, started_at, "exit status 1", others_working=others)

    async def step(self, what: str, value: float) -> None:
        match what:
            case "start":
                self.start()
            case "spoke":
                if (n := self.pick(int(value))) is not None:
                    self.live[n] = (self.live[n][0], True)
                    self.it.instance_spoke(n)
            case "exit":
                self.exit(self.pick(int(value)))
            case "crash":
                self.exit(self.start())
            case "advance":
                self.time.advance(value)
            case "admit":
                self.waiters.append(asyncio.create_task(self.admit()))
            case "cancel":
                if self.waiters:
                    self.waiters[int(value) % len(self.waiters)].cancel()
            case "turn":
                await turn()
            case "cannot_start":
                self.it.cannot_start(ServerFailed("no program", code="program_missing"))
            case "drain":
                self.it.drain("SIGTERM")
            case _:
                getattr(self.it, what)()
        self.check()


def outcome(waiter: "asyncio.Task[State]") -> State | None:
    """The state in which it passed, or None."""
    if waiter.cancelled():
        return None
    if (error := waiter.exception()) is not None:
        assert isinstance(error, MooringError), error
        return None
    return waiter.result()


@settings(deadline=None)  # the machine may be busy; speed is not the question
@given(
    steps=STEPS,
    restart=st.sampled_from([True, True, True, False]),
    dice=st.lists(st.floats(0, 1), min_size=1),
)
async def test_any_life(steps: list[tuple[str, float]], restart: bool, dice: list[float]) -> None:
    rolls = iter(dice * 100)
    world = World(RestartPolicy(restart=restart), lambda: next(rolls))
    for what, value in steps:
        await world.step(what, value)
        if world.it.state is not State.BACKOFF:
            await turn()
            assert all(waiter.done() for waiter in world.waiters), "waits, and not for a delay"
    # A delay ends by itself, so whoever still waits gets an answer.
    world.time.advance(1.1 * CAP_S)
    await turn()
    assert all(waiter.done() for waiter in world.waiters)
    for waiter in world.waiters:
        assert outcome(waiter) in (None, State.STARTING, State.READY, State.DRAINING)


@settings(deadline=None)  # the machine may be busy; speed is not the question
@given(steps=STEPS, end=st.sampled_from(["stop", "stopped"]), after=STEPS)
async def test_after_the_end_nothing_is_admitted(
    steps: list[tuple[str, float]], end: str, after: list[tuple[str, float]]
) -> None:
    world = World(POLICY, lambda: 0.5)
    for what, value in steps:
        await world.step(what, value)
    already = {waiter for waiter in world.waiters if waiter.done()}
    await world.step(end, 0)
    for what, value in after:
        await world.step(what, value)
    await turn()
    assert all(outcome(waiter) is None for waiter in world.waiters if waiter not in already)
    assert world.it.state in OVER
    assert world.time.timers == []


@settings(deadline=None)  # the machine may be busy; speed is not the question
@given(spans=st.lists(SPANS_S, max_size=40))
async def test_a_server_that_always_crashes_is_tried_once_a_minute_at_most(spans: list[float]) -> None:
    world = World(POLICY, lambda: 0.0)
    while world.it.state is not State.FAILED:
        if world.it.state is State.BACKOFF:
            world.time.advance(60)
        world.exit(world.start())
    failed_at = world.time.now
    for span in spans:
        world.time.advance(span)
        waiter = asyncio.create_task(world.admit())
        rival = asyncio.create_task(world.admit())
        await turn()
        passed = [outcome(waiter), outcome(rival)]
        assert passed.count(State.STARTING) <= 1
        if State.STARTING in passed:
            world.exit(world.start())
        assert world.it.state is State.FAILED
    moments = [failed_at, *world.tries]
    assert all(later - earlier >= 60 - 1e-6 for earlier, later in itertools.pairwise(moments))


@settings(deadline=None)  # the machine may be busy; speed is not the question
@given(lives=st.lists(st.tuples(SPANS_S, SPANS_S), max_size=60), dice=st.floats(0, 1))
def test_delays_never_undercut_the_ladder_and_memory_is_bounded(
    lives: list[tuple[float, float]], dice: float
) -> None:
    history, now = RestartHistory(), 0.0
    for wait_s, life_s in lives:
        started_at = now + wait_s
        now = started_at + life_s
        history = history.started(started_at).exited(POLICY, now, started_at)
        verdict = decide(history, now, policy=POLICY, random=lambda: dice)
        assert len(history.exits) <= 11
        if isinstance(verdict, RestartAfter):
            step = POLICY.delays_s[min(verdict.attempt, 5) - 1]
            assert step <= verdict.delay_s <= 1.1 * step + 1e-9
            assert 1 <= verdict.attempt <= verdict.of == 10
            history = history.waited()
            now += verdict.delay_s
