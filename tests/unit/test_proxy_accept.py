"""What an Accept header allows."""

import pytest

from mooring.proxy.streamable import _read_terms
from mooring.wire.http import Head


@pytest.mark.parametrize(
    ("values", "json", "events"),
    [
        ([], True, True),
        ([b"application/json, text/event-stream"], True, True),
        ([b"application/json", b"text/event-stream"], True, True),
        ([b"Application/JSON; charset=utf-8"], True, False),
        ([b"*/*"], True, True),
        ([b"text/*"], False, True),
        ([b"application/*;q=0.1"], True, False),
        ([b"application/json, text/event-stream;q=0"], True, False),
        ([b"text/event-stream; q=0.000, application/json;q=0.001"], True, False),
        ([b"image/png"], False, False),
    ],
)
def test_accept(values: list[bytes], json: bool, events: bool) -> None:
    head = Head("POST", headers=[(b"content-type", b"application/json"), *((b"accept", v) for v in values)])
    terms = _read_terms(head)
    assert (terms.refusal is None, terms.events) == (json or events, events)
