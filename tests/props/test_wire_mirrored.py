"""Whatever a text holds, it comes through a header as it was, and cannot become another header."""

import base64
import re

from hypothesis import example, given
from hypothesis import strategies as st

from mooring.wire.header_values import encode_value


def decoded(value: bytes) -> str:
    """By the book: what a server does before it compares."""
    if value.startswith(b"=?base64?") and value.endswith(b"?=") and len(value) >= 11:
        return base64.b64decode(value[9:-2], validate=True).decode()
    return value.decode("ascii")


@given(st.text() | st.text("=?base64 \t\r\n\0é~!", max_size=30).map(lambda text: f"=?base64?{text}?="))
@example("=?base64??=")
@example("=?base64?=")
@example("")
def test_any_text_comes_back(text: str) -> None:
    encoded = encode_value(text)
    assert decoded(encoded) == text
    assert re.fullmatch(rb"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?", encoded)
