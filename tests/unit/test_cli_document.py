"""docs/cli.md is what the commands say of themselves; and each says it well."""

import re
import subprocess
import sys

import click
import pytest

from tests.cli_page import PAGE, WIDTH, commands, root
from tests.e2e.program import ROOT

ALL = {context.command_path: context for context in commands(root())}


def test_the_page_is_up_to_date() -> None:
    # In a process of its own: click keeps of each command what it was first asked with.
    made = subprocess.run(
        [sys.executable, "-m", "tests.cli_page"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert PAGE.read_text() == made.stdout, "python -m tests.cli_page --write"


def test_nothing_is_wider_than_a_usual_terminal() -> None:
    code = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert [line for block in code for line in block.splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_examples_that_begin_with_it(path: str) -> None:
    command = ALL[path].command
    examples = (command.epilog or "").partition("Examples:")[2] or (command.epilog or "")
    assert path in examples, f"{path} has no example in its help"


@pytest.mark.parametrize("path", ALL)
def test_every_option_is_explained(path: str) -> None:
    for parameter in ALL[path].command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{path} {parameter.opts[0]}"
