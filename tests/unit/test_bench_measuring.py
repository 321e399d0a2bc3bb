"""Targets in turn, the best window of each, a dash for what fails."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bench.measuring import Figures, Group, Plan, Probe, Unable, measure
from bench.results import Row


class Silent:
    def begin(self, group: Group) -> None: ...

    def step(self, target: str, text: str) -> None: ...

    def end(self, rows: Sequence[Row]) -> None: ...


class Script:
    """Targets whose windows give what is written down; what was done, in order."""

    def __init__(self, windows: dict[str, list[Figures | Exception]]) -> None:
        self._windows = windows
        self.done: list[str] = []

    @contextmanager
    def _ready(self, target: str) -> Iterator[Callable[[], Figures]]:
        rest = iter(self._windows[target])

        def window() -> Figures:
            self.done.append(target)
            outcome = next(rest)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        yield window
        self.done.append(f"{target} ended")

    def measure(self, *ids: str, windows: int, quick: bool = False) -> list[Row]:
        def probes(plan: Plan) -> Iterator[Probe]:
            for target in plan.targets:
                yield Probe(target, ids, self._ready(target))

        plan = Plan(tuple(self._windows), quick)
        return measure(Group(ids, probes, windows, quick_windows=1), plan, Silent())


def test_targets_are_measured_in_turn_and_ended_at_the_end() -> None:
    script = Script({"mooring": [Figures({"rate_1s": 1})] * 2, "pipe": [Figures({"rate_1s": 1})] * 2})
    script.measure("rate_1s", windows=2)
    assert script.done == ["mooring", "pipe", "mooring", "pipe", "pipe ended", "mooring ended"]


def test_the_best_window_counts_in_the_direction_of_the_row() -> None:
    windows = [Figures({"rate_1s": rate, "cpu_per_call": cost}) for rate, cost in ((5, 9), (7, 8), (6, 10))]
    rate, cost = Script({"mooring": [*windows]}).measure("rate_1s", "cpu_per_call", windows=3)
    assert (rate.values, cost.values) == ({"mooring": 7}, {"mooring": 8})


def test_all_windows_are_kept_in_their_order() -> None:
    windows = [Figures({"rate_1s": rate}) for rate in (5.123456, 7, None, 6)]
    once = Figures({"rate_1s": 4})
    [rate] = Script({"mooring": [*windows], "pipe": [once, Unable("gone")]}).measure("rate_1s", windows=4)
    assert rate.turns == {"mooring": [5.1235, 7, None, 6]}


def test_where_the_best_would_be_a_boast_the_worst_window_counts() -> None:
    windows = [Figures({"generator_share": share}) for share in (20, 40, 30)]
    [share] = Script({"mooring": [*windows]}).measure("generator_share", windows=3)
    assert share.values == {"mooring": 40}


def test_a_note_goes_with_its_value() -> None:
    windows = [
        Figures({"start": took}, {"start": note}) for took, note in ((2, "slow"), (1, "fast"), (3, "slower"))
    ]
    [start] = Script({"mooring": [*windows]}).measure("start", windows=3)
    assert start.notes == {"mooring": "fast"}


def test_what_fails_is_a_dash_with_its_reason_and_the_rest_goes_on() -> None:
    script = Script(
        {
            "fastmcp": [Unable("HTTP status 413")],
            "supergateway": [KeyError("text")],
            "mooring": [Figures({"echo_1m": 4}), Figures({"echo_1m": 3})],
        }
    )
    [echo] = script.measure("echo_1m", windows=2)
    assert echo.values == {"fastmcp": None, "supergateway": None, "mooring": 3}
    assert echo.notes == {"fastmcp": "HTTP status 413", "supergateway": "KeyError: 'text'"}
    assert script.done.count("fastmcp") == 1


def test_a_window_that_fails_later_leaves_the_figure_and_is_told() -> None:
    once = Figures({"death_error": 4, "death_next": 5})
    for row in Script({"fastmcp": [once, Unable("gone")]}).measure("death_error", "death_next", windows=2):
        assert row.values["fastmcp"] == once.values[row.id]
        assert row.notes == {"fastmcp": "a later window failed: gone"}


def test_a_target_may_have_no_value_and_say_why() -> None:
    never = Figures({"death_error": 3, "death_next": None}, {"death_next": "never"})
    _, following = Script({"fastmcp": [never] * 2}).measure("death_error", "death_next", windows=2)
    assert (following.values, following.notes) == ({"fastmcp": None}, {"fastmcp": "never"})


def test_a_quick_run_has_fewer_windows() -> None:
    script = Script({"mooring": [Figures({"start": 1})]})
    script.measure("start", windows=5, quick=True)
    assert script.done == ["mooring", "mooring ended"]
