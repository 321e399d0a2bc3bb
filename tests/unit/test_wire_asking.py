import pytest

from mooring.wire.asking import PAGES, has_declared, required_for
from mooring.wire.members import Members


def test_what_a_request_needs() -> None:
    assert required_for("sampling/createMessage") == {"sampling": {}}
    assert required_for("roots/list", b"5") == {"roots": {}}
    assert required_for("elicitation/create", b'{"mode":"form"}') == {"elicitation": {}}
    assert required_for("elicitation/create", b'{"message":"who?"}') == {"elicitation": {}}
    assert required_for("elicitation/create", b'{"mode":"url"}') == PAGES
    assert required_for("x/other") == {}


@pytest.mark.parametrize(
    ("declared", "forms", "pages"),
    [
        ({}, False, False),
        ({"sampling": b"{}"}, False, False),
        ({"elicitation": b"{}"}, True, False),
        ({"elicitation": b'{"form":{}}'}, True, False),
        ({"elicitation": b'{"form":{},"url":{}}'}, True, True),
        ({"elicitation": b"5"}, True, False),
    ],
)
def test_what_a_client_has_declared(declared: Members, forms: bool, pages: bool) -> None:
    assert has_declared(declared, {"elicitation": {}}) is forms
    assert has_declared(declared, PAGES) is pages
    assert has_declared(declared, {})
