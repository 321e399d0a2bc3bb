"""Nothing that the official suite wants of clients is left out because a list of it was empty."""

import pytest

from tests import parts
from tests.e2e.conformance import client_scenarios
from tests.oauth.test_conformance import required

AUTH = {"2025-11-25": 14, "2026-07-28": 25}
OTHERS = {"2025-11-25": 4, "2026-07-28": 7}


@pytest.mark.parametrize("revision", AUTH)
def test_the_suite_has_as_many_scenarios_of_clients_as_are_tried(revision: str) -> None:
    parts.require("npm")
    names = client_scenarios(revision)
    assert len(set(names)) == len(names)
    assert sum(name.startswith("auth/") for name in names) == AUTH[revision]
    assert sum(not name.startswith("auth/") for name in names) == OTHERS[revision]
    tried = [case.values[1] for case in required() if case.values[0] == revision]
    assert len(tried) == AUTH[revision]
