"""Look for new inputs, for MOORING_FUZZ_S seconds each (ten minutes): whatever is found fails the test."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import CORPUS, TARGETS

SECONDS = int(os.environ.get("MOORING_FUZZ_S", "600"))
MAX_BYTES = 1200
"""Of an input: several requests, and faster than long ones."""
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("target", TARGETS)
def test_no_input_breaks_a_promise(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if importlib.util.find_spec("atheris") is None and os.environ.get("CI") != "true":
        pytest.skip("there is no atheris for this Python or machine")
    found = tmp_path / "found"
    found.mkdir()
    options = [f"-max_total_time={SECONDS}", f"-max_len={MAX_BYTES}", f"-artifact_prefix={tmp_path}/"]
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", target, *options, found, CORPUS / target],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    told = run.stdout.decode(errors="replace")
    inputs = [file.read_bytes() for file in tmp_path.iterdir() if file.is_file()]
    assert run.returncode == 0 and not inputs, f"{told[-4000:]}\ninputs: {inputs}"
    with capsys.disabled():
        print(f"\n{target}: {told.splitlines()[-1]}, {len(list(found.iterdir()))} inputs with new coverage")
