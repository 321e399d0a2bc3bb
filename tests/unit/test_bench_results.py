"""Rows mean the same to whoever writes and reads them; a file of another shape is told apart."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import results
from bench.results import MEASURES, Kind, Results, Row, WrongShape, from_json, row, to_json
from tests.unit.bench_sample import sample_run


def as_json(**changed: Any) -> bytes:
    return json.dumps(json.loads(to_json(sample_run())) | changed).encode()


def test_a_run_comes_back_as_it_was_written() -> None:
    assert from_json(to_json(sample_run())) == sample_run()


def test_turns_come_back_too_and_are_left_out_where_there_are_none() -> None:
    turned = row("start", {"mooring": 1.0}, turns={"mooring": [2.0, None, 1.0]})
    run = Results("", {}, "", ["mooring"], [turned, row("rss_50", {"mooring": 1.0})])
    assert from_json(to_json(run)) == run
    assert to_json(run).count(b"turns") == 1


def test_whole_numbers_need_no_decimal_point() -> None:
    [only] = from_json(as_json(rows=[first_row(values={"mooring": 3})])).rows
    assert only.values == {"mooring": 3.0}


def test_a_row_takes_title_unit_and_direction_from_the_table() -> None:
    made = row("rate_1s", {"mooring": 1.0}, {"pipe": "why"})
    assert (made.title, made.unit, made.better) == MEASURES["rate_1s"]
    assert made.notes == {"pipe": "why"}


def test_a_row_with_the_python_child_is_the_same_measure_and_says_so() -> None:
    made = row("rate_1s_pychild", {})
    assert made.title == MEASURES["rate_1s"].title + " (Python)"
    assert (made.unit, made.better) == MEASURES["rate_1s"][1:]


def test_nobody_invents_a_row() -> None:
    with pytest.raises(KeyError):
        row("guess", {})
    with pytest.raises(ValueError, match="no row is called guess"):
        Row("guess", "a guess", "ms", "lower", {}, {})


def test_a_row_in_another_unit_is_not_that_row() -> None:
    with pytest.raises(ValueError, match="start is in s, lower is better"):
        Row("start", "start", "ms", "lower", {}, {})


def test_a_run_has_each_row_once() -> None:
    with pytest.raises(ValueError, match="more than one row start"):
        Results("", {}, "", ["mooring"], [row("start", {}), row("start", {})])


def test_a_run_has_values_of_its_targets_only() -> None:
    with pytest.raises(ValueError, match="values of stranger, not among the targets"):
        Results("", {}, "", ["mooring"], [row("start", {"stranger": 1.0})])


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"date": "2026-11-15"}', "missing required field `machine`"),
        (as_json(extra=1), "unknown field `extra`"),
        (as_json(rows=[{}]), "$.rows[0]"),
    ],
)
def test_another_shape_is_named_with_its_place(text: bytes, where: str) -> None:
    with pytest.raises(WrongShape, match=re.escape(where)):
        from_json(text)


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"better": "bigger"}, "$.rows[0].better"),
        ({"values": {"mooring": "fast"}}, "$.rows[0].values"),
        ({"values": {"stranger": 1}}, "not among the targets"),
        ({"unit": "h"}, "is in ms"),
        ({"id": "guess"}, "no row is called guess"),
    ],
)
def test_a_row_of_another_shape_is_named_with_its_place(changed: dict[str, Any], where: str) -> None:
    with pytest.raises(WrongShape, match=re.escape(where)):
        from_json(as_json(rows=[first_row(**changed)]))


def first_row(**changed: Any) -> dict[str, Any]:
    first: dict[str, Any] = json.loads(to_json(sample_run()))["rows"][0]
    return first | changed


def test_what_is_not_there_has_no_value() -> None:
    run = sample_run(start=None)
    assert run.row("start") is None
    assert run.value("start", "mooring") is None
    assert run.value("seq_p50", "stranger") is None
    assert run.value("seq_p50", "mooring") == 0.19


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "recorded_path", lambda kind: tmp_path / "recorded" / f"{kind}.json")


def run_at(date: str) -> Results:
    return msgspec.structs.replace(sample_run(), date=date)


@pytest.mark.usefixtures("shelf")
def test_the_last_run_of_each_kind_is_kept() -> None:
    for date in ("2026-01-01", "2026-01-02"):
        results.record(run_at(date), "full")
    results.record(run_at("2026-01-03"), "quick")
    assert results.recorded("full") == run_at("2026-01-02")
    assert results.recorded("quick") == run_at("2026-01-03")


@pytest.mark.usefixtures("shelf")
def test_before_the_first_run_there_is_none() -> None:
    assert results.recorded("full") is None


@pytest.mark.usefixtures("shelf")
def test_a_row_that_was_given_up_is_left_out_of_a_run_kept_before() -> None:
    results.record(sample_run(), "full")
    results.recorded_path("full").write_bytes(as_json(rows=[first_row(), first_row(id="guess")]))
    kept = results.recorded("full")
    assert kept is not None and [one.id for one in kept.rows] == [first_row()["id"]]


@pytest.mark.parametrize("kind", ["full", "quick"])
def test_a_run_kept_here_can_be_read(kind: Kind) -> None:
    kept = results.recorded(kind)
    assert kept is None or kept.value("rate_1s", "mooring")
