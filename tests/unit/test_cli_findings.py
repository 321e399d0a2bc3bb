"""What `mooring doctor` shows, word by word; and that one check that fails does not stop the others."""

from collections.abc import Iterator

from mooring.cli.doctor.findings import Finding, Level, collect, lines
from mooring.errors import UserError

FOUND = [
    Finding("files", Level.OK, "~/.local/state/mooring is yours alone"),
    Finding(
        "daemon",
        Level.PROBLEM,
        "it runs (pid 4711) and does not answer",
        "if it was suspended: kill -CONT 4711; if it hangs: kill -9 4711, then mooring daemon start, "
        "which brings everything back",
    ),
    Finding("programs", Level.NOTE, "uvx is not on your PATH", "pip install uv"),
    Finding("servers", Level.OK, "odd \x1b[31m words"),
]

GOLDEN = """\
ok       files      ~/.local/state/mooring is yours alone
problem  daemon     it runs (pid 4711) and does not answer
                    → if it was suspended: kill -CONT 4711; if it hangs: kill -9
                      4711, then mooring daemon start, which brings everything
                      back
note     programs   uvx is not on your PATH
                    → pip install uv
ok       servers    odd \\x1b[31m words"""


def test_as_people_read_it() -> None:
    assert "\n".join(line for found in FOUND for line in lines(found, width=80, colour=False)) == GOLDEN


def test_with_colours() -> None:
    [first, *_] = lines(FOUND[1], width=80, colour=True)
    assert first.startswith("\x1b[31mproblem\x1b[0m  daemon")


def test_one_that_fails_is_a_finding_itself() -> None:
    def fails() -> Iterator[Finding]:
        raise UserError("it is odd", code="odd", hint="make it even")

    def breaks() -> Iterator[Finding]:
        raise PermissionError(13, "Permission denied", "/somewhere")

    def works() -> Iterator[Finding]:
        yield FOUND[0]

    odd, broken, fine = collect([("odd", fails), ("broken", breaks), ("fine", works)])
    assert odd == Finding("odd", Level.PROBLEM, "it is odd", "make it even")
    assert broken.level is Level.PROBLEM and "/somewhere" in broken.text
    assert fine == FOUND[0]
