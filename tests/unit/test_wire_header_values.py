"""What a header says of a body, read back: only what `encode_value` writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.wire.header_values import decode_value, encode_value


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_back(text: str) -> None:
    assert decode_value(encode_value(text).decode()) == text


@pytest.mark.parametrize("payload", ["!", "YQ", "YQ=", "YR==", "/w==", "é", "YQ==\n"])
def test_a_malformed_or_second_encoding_says_nothing(payload: str) -> None:
    assert decode_value(f"=?base64?{payload}?=") is None


def test_what_is_not_ascii_says_nothing() -> None:
    assert decode_value("\u00e9") is None
