"""Every input that a fuzzer found worth keeping, once more."""

import importlib

import pytest

from tests.fuzz import CORPUS, TARGETS

CHECKS = {target: importlib.import_module(f"tests.fuzz.{target}").check for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS)
def test_every_kept_input_keeps_every_promise(target: str) -> None:
    inputs = sorted((CORPUS / target).iterdir())
    assert len(inputs) > 10, "the corpus is missing"
    for file in inputs:
        try:
            CHECKS[target](file.read_bytes())
        except Exception as error:
            raise AssertionError(f"{file.name}: {file.read_bytes()!r}") from error


@pytest.mark.parametrize("target", TARGETS)
def test_an_empty_input_is_one(target: str) -> None:
    CHECKS[target](b"")
