"""An object is taken apart and put together; what nobody touched is as it was."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.wire.members import read_members, write_members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), VALUES))
def test_what_is_put_together_again_means_the_same(value: dict[str, Any]) -> None:
    data = json.dumps(value).encode()
    assert json.loads(write_members(read_members(data))) == value


def test_bytes_of_members_are_kept() -> None:
    data = b'{"a": 12345678901234567890123, "b":"\\u00e9\\ud83d", "c": 1.0e2}'
    assert read_members(data) == {"a": b"12345678901234567890123", "b": b'"\\u00e9\\ud83d"', "c": b"1.0e2"}


def test_nothing_is_an_empty_object_and_anything_else_is_refused() -> None:
    assert read_members(b"") == {}
    for data in (b"[]", b"1", b'"x"', b"{", b'{"a":'):
        with pytest.raises(msgspec.DecodeError):
            read_members(data)
