"""Engines for all tests here: one of each kind for the whole run."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.engines import ENGINES, RealEngine


@pytest.fixture(scope="session", params=ENGINES)
def real_engine(request: pytest.FixtureRequest) -> Iterator[RealEngine]:
    if lacks := ENGINES[request.param].lacks():
        pytest.skip(lacks)
    # (Podman wants a short path.)
    engine = ENGINES[request.param](Path(tempfile.mkdtemp(prefix=f"mooring-{request.param}-")))
    try:
        engine.set_up()
        yield engine
    finally:
        engine.tear_down()


@pytest.fixture(scope="session")
def kind(real_engine: RealEngine) -> str:
    return real_engine.kind
