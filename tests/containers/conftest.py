"""Engines for all tests here: one of each kind for the whole run."""

from collections.abc import Iterator

import pytest

from tests.containers.engines import ENGINES, RealEngine


@pytest.fixture(scope="session", params=ENGINES)
def real_engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealEngine]:
    if lacks := ENGINES[request.param].lacks():
        pytest.skip(lacks)
    engine = ENGINES[request.param](tmp_path_factory.mktemp(request.param))
    try:
        engine.set_up()
        yield engine
    finally:
        engine.tear_down()


@pytest.fixture(scope="session")
def kind(real_engine: RealEngine) -> str:
    return real_engine.kind
