"""The report on a terminal and in a file."""

import io
import re

import msgspec
import pytest

from bench import claims, compare, report
from bench.results import Results
from tests.unit.bench_sample import sample_run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def table(run: Results) -> list[str]:
    file = io.StringIO()
    report.print_table(run, file)
    return file.getvalue().splitlines()


def promises(run: Results) -> list[str]:
    file = io.StringIO()
    report.print_claims(claims.judge(run), file)
    return file.getvalue().splitlines()


def changes(old: Results, new: Results) -> list[str]:
    file = io.StringIO()
    report.print_changes(compare.compare(old, new), compare.other_machine(old, new), file)
    return file.getvalue().splitlines()


def test_figures_and_beneath_them_the_ratios() -> None:
    lines = table(sample_run())
    [place] = [
        place for place, line in enumerate(lines) if line.startswith("32 connections, one session, calls/s")
    ]
    assert lines[place].split()[5:] == ["30,250", "43,250", "877,699", "912", "327", "1,324", "1,923"]
    assert lines[place + 1].split() == ["0.70×", "0.034×", "33×", "93×", "23×", "16×"]


def test_columns_are_aligned_under_their_targets() -> None:
    names, figures = table(sample_run())[1:3]
    assert names.split() == [
        "mooring",
        "minimal",
        "pipe",
        "mcp-proxy",
        "fastmcp",
        "supergateway",
        "mcp-proxy",
    ]
    ends = [match.end() for match in re.finditer(r"\S+", names)]
    assert [match.end() for match in re.finditer(r"\S+", figures)][-7:] == ends


def test_it_fits_a_wide_terminal() -> None:
    assert max(map(len, table(sample_run()))) <= 120


def test_notes_say_why_there_is_no_figure() -> None:
    assert "supergateway, echo of 1 MiB: answers 413" in table(sample_run())


def test_a_run_without_rows_is_a_table_without_rows() -> None:
    assert len(table(msgspec.structs.replace(sample_run(), rows=[]))) == 4


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain, coloured = io.StringIO(), Terminal()
    report.print_table(sample_run(), plain)
    report.print_table(sample_run(), coloured)
    assert "\x1b" not in plain.getvalue()
    assert "\x1b[1m" in coloured.getvalue()
    assert re.sub(r"\x1b\[\d*m", "", coloured.getvalue()) == plain.getvalue()


def test_who_wants_no_colour_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    report.print_table(sample_run(), terminal)
    assert "\x1b" not in terminal.getvalue()


def test_a_kept_promise_takes_one_line() -> None:
    lines = promises(sample_run())
    assert len(lines) == len(claims.PROMISES)
    assert all(line.startswith("✓ ") for line in lines)
    assert any(line.split()[-5:] == ["29.7", "MB", "≤", "35", "MB"] for line in lines)


def test_a_broken_promise_and_an_unmeasured_one_say_why() -> None:
    lines = promises(sample_run(cpu_per_call={"mooring": 50}, help_ratio=None))
    assert "  fell short: no reason stated yet" in lines
    place = lines.index("  not measured: no figure for mooring in help_ratio")
    assert lines[place - 1].startswith("? `mooring --help`")


def test_what_got_worse_is_named_with_its_figures() -> None:
    slower = sample_run(rate_1s={"mooring": 24_200}, seq_p50={"mooring": 0.095}, cost_100=None)
    assert changes(sample_run(), slower) == [
        "not measured any more: CPU of a lone call, 100 sessions",
        "worse: 32 connections, one session, 30,250 → 24,200 calls/s (-20%); the minimal bridge +0%",
        "better: one call after another, p50, 0.190 → 0.0950 ms (-50%); the minimal bridge +0%",
        "Since the recorded run: 2 worse, 1 better, 69 the same within noise.",
    ]


def test_a_first_lost_call_has_no_percentage() -> None:
    assert "worse: lost on SIGTERM, 0 → 1 calls" in changes(
        sample_run(), sample_run(sigterm_lost={"mooring": 1})
    )


def test_another_machine_is_a_word_of_caution() -> None:
    here = sample_run()
    there = msgspec.structs.replace(here, machine=here.machine | {"cores": "64"})
    assert changes(here, there)[0] == "Not the machine of the recorded run (cores: 2 → 64):"
