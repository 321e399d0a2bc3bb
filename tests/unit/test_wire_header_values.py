"""What a header says of a body: any text there and back, and one encoding for each."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.wire.header_values import decode_value, encode_value


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_back(text: str) -> None:
    value = encode_value(text)
    assert value.isascii() and value.isprintable() and value == value.strip()
    assert decode_value(value) == text


@pytest.mark.parametrize("text", ["echo", "a b", "file:///x?y=1", ""])
def test_what_a_header_can_carry_is_not_encoded(text: str) -> None:
    assert encode_value(text) == text


@pytest.mark.parametrize("text", [" a", "a ", "é", "a\n", "=?base64?YQ==?="])
def test_what_it_cannot_is(text: str) -> None:
    assert encode_value(text).startswith("=?base64?")


@pytest.mark.parametrize("payload", ["!", "YQ", "YQ=", "YR==", "/w==", "é", "YQ==\n"])
def test_a_malformed_or_second_encoding_says_nothing(payload: str) -> None:
    assert decode_value(f"=?base64?{payload}?=") is None
    assert base64.b64encode(b"a").decode() == "YQ=="
