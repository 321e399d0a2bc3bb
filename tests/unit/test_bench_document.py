"""The page about performance says what the recorded run said."""

from pathlib import Path

import pytest

from bench import document, plot
from bench.document import BEGIN, END, render, render_scaling, replace_generated
from bench.results import Results, recorded
from bench.simulation.findings import sizes_of
from tests.unit.bench_sample import sample_run


def cells(run: Results, title: str) -> list[str]:
    """The cells of the last table row with that title."""
    found = [line for line in render(run).splitlines() if line.startswith(f"| {title} |")]
    return [cell.strip() for cell in found[-1].strip("|").split("|")]


def test_date_commit_and_machine_come_first() -> None:
    run = sample_run()
    run.machine["fastmcp"] = "4.1.4"
    first, versions = render(run).splitlines()[:2]
    assert first.startswith("2026-11-15, commit `0123abc`. Machine: 2 cores of AMD EPYC")
    assert versions == "Versions: fastmcp 4.1.4."


def test_the_picture_is_shown() -> None:
    assert f"]({document.PICTURE.name})" in render(sample_run())


def test_figures_with_ratios() -> None:
    assert cells(sample_run(), "32 connections, one session")[1:5] == [
        "calls/s",
        "**30,250**",
        "43,250 (0.70×)",
        "877,699 (0.034×)",
    ]


def test_what_only_mooring_has_is_listed_apart() -> None:
    comparison, _, alone = render(sample_run()).partition("### Mooring alone")
    assert "executed per call" not in comparison
    assert "| executed per call | instructions | **181,234** |" in alone


def test_every_row_is_in_the_page_once() -> None:
    for row in sample_run().rows:
        assert render(sample_run()).count(f"| {row.title} | {row.unit} |") == 1


def test_a_kept_promise_says_so_and_a_broken_one_says_why() -> None:
    run = sample_run(rss_per_session={"mooring": 21}, help_ratio=None)
    assert "| memory with 50 sessions | 29.7 MB | ≤ 35 MB | kept |" in render(run)
    assert "| 21.0 KiB | ≤ 20 KiB | **fell short**: no reason stated yet |" in render(run)
    assert "| – | ≤ 6× | **not measured**: no figure for mooring in help_ratio |" in render(run)


def test_notes_follow() -> None:
    assert render(sample_run()).endswith(
        "- answer of 20 MiB in one line, npm-mcp-proxy: loses its server for good\n"
    )


def test_a_note_with_what_a_peer_answered_is_text() -> None:
    run = sample_run()
    run.rows[0].notes["fastmcp"] = "<h1>Sorry</h1>"
    assert "fastmcp: &lt;h1&gt;Sorry&lt;/h1&gt;" in render(run)


def test_tables_are_rectangular() -> None:
    tables = [block for block in render(sample_run()).split("\n\n") if block.startswith("|")]
    assert len(tables) == 3
    for block in tables:
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_only_what_is_between_the_marks_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    replaced = replace_generated(page, "new\n")
    assert replaced == f"before\n{BEGIN}\n\nnew\n{END}\nafter\n"
    assert replace_generated(replaced, "new\n") == replaced


@pytest.mark.parametrize("page", ["", BEGIN, END, f"{END}{BEGIN}"])
def test_a_page_without_its_marks_is_left_alone(page: str) -> None:
    with pytest.raises(ValueError, match="lacks its marks"):
        replace_generated(page, "new")


def test_the_page_in_docs_is_that_of_the_recorded_run() -> None:
    run = recorded("full")
    page = document.PAGE.read_text()
    assert replace_generated(page, "" if run is None else render(run)) == page
    if run is not None:
        assert document.PICTURE.read_text() == plot.draw(run)
    scaling = document.SCALING.read_text()
    assert replace_generated(scaling, "" if run is None else render_scaling(run)) == scaling


def test_a_run_is_written_into_pages_and_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "PAGE", tmp_path / "performance.md")
    monkeypatch.setattr(document, "PICTURE", tmp_path / "performance.svg")
    monkeypatch.setattr(document, "SCALING", tmp_path / "scaling.md")
    monkeypatch.setattr(document, "sizes_of", lambda fleet: sizes_of(fleet, (3,), (10_000,)))
    for page in (document.PAGE, document.SCALING):
        page.write_text(f"above\n{BEGIN}\n{END}\nbelow\n")
    document.write(sample_run())
    assert document.PAGE.read_text() == f"above\n{BEGIN}\n\n{render(sample_run())}{END}\nbelow\n"
    assert document.PICTURE.read_text() == plot.draw(sample_run())
    scaling = document.SCALING.read_text()
    assert scaling == f"above\n{BEGIN}\n\n{render_scaling(sample_run())}{END}\nbelow\n"
    assert "2026-11-15, commit `0123abc`" in scaling


def test_a_run_without_replicas_says_so_in_the_page_about_them() -> None:
    assert render_scaling(sample_run(replica_one_few=None)).startswith("Not measured yet")
