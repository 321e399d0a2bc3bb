"""The picture: well-formed, to scale, inside its frame, in two colour schemes."""

from xml.etree import ElementTree

import msgspec
import pytest

from bench.plot import PANELS, draw
from bench.results import MEASURES, Results
from tests.unit.bench_sample import sample_run

SVG = "{http://www.w3.org/2000/svg}"


def parsed(run: Results) -> ElementTree.Element:
    return ElementTree.fromstring(draw(run))


def texts(picture: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


def bars(picture: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [element for element in picture.iter(f"{SVG}rect") if element.get("class") == kind]


def length(element: ElementTree.Element) -> float:
    return float(element.get("width", "nan"))


def test_each_panel_has_a_title_and_a_bar_of_ours() -> None:
    picture = parsed(sample_run())
    for row_id in PANELS:
        assert f"{MEASURES[row_id].title}, {MEASURES[row_id].unit}" in texts(picture)
    assert len(bars(picture, "ours")) == len(PANELS)


def test_bars_are_to_scale_and_start_at_zero() -> None:
    picture = parsed(sample_run(rate_1s={"mooring": 30_000, "minimal": 60_000}))
    assert length(bars(picture, "limit")[0]) == pytest.approx(2 * length(bars(picture, "ours")[0]), abs=0.2)


def test_the_pipe_is_left_out() -> None:
    assert "pipe" not in texts(parsed(sample_run()))


def test_nothing_sticks_out() -> None:
    picture = parsed(sample_run())
    width, height = (float(picture.get(side, "nan")) for side in ("width", "height"))
    for element in picture.iter():
        if (x := element.get("x")) and (y := element.get("y")):
            assert 0 <= float(x) + float(element.get("width", "0")) <= width
            assert 0 <= float(y) + float(element.get("height", "0")) <= height


def test_what_has_no_figure_says_why_in_its_place() -> None:
    picture = parsed(sample_run(start={"fastmcp": None}))
    assert "loses its server for good" in texts(picture)
    assert "not measured" in texts(picture)


def test_a_long_note_is_cut() -> None:
    run = sample_run()
    run.rows[0].notes["fastmcp"] = "word " * 40
    run.rows[0].values["fastmcp"] = None
    [note] = [text for text in texts(parsed(run)) if text.startswith("word")]
    assert len(note) <= 38
    assert note.endswith(" …")


def test_text_is_escaped() -> None:
    run = sample_run()
    run.machine["cpu"] = "<Fast & Co>"
    assert any("<Fast & Co>" in text for text in texts(parsed(run)))


def test_a_row_that_was_not_measured_has_no_panel() -> None:
    assert len(bars(parsed(sample_run(start=None)), "ours")) == len(PANELS) - 1


def test_a_run_without_rows_is_still_a_picture() -> None:
    assert bars(parsed(msgspec.structs.replace(sample_run(), rows=[])), "ours") == []


def test_every_colour_has_a_dark_counterpart() -> None:
    style = parsed(sample_run()).findtext(f"{SVG}style", "")
    light, media, dark = style.partition("@media (prefers-color-scheme: dark)")
    assert media
    for kind in ("paper", "text", "quiet", "ours", "limit", "peer", "axis"):
        assert f".{kind} {{" in light
        assert f".{kind} {{" in dark
