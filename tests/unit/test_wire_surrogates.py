"""Half a character: a copy that can be read, and the exact way back."""

import msgspec
import pytest

from mooring.wire.surrogates import readable_copy, tolerant

read_text = tolerant(msgspec.json.Decoder(str).decode)
read_list = tolerant(msgspec.json.Decoder(list[msgspec.Raw]).decode)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no JSON at all",
        rb'"\ud83d\ude00"',
        rb'"\uD83D\uDE00\ud83d\ude00"',
        rb'"\\ud800"',
        rb'"\\\\udfff"',
        rb'"\u0041\ue800"',
        rb'"\ud80"',
    ],
)
def test_without_half_a_character_there_is_no_copy(data: bytes) -> None:
    assert readable_copy(data) is None


@pytest.mark.parametrize(
    ("data", "copy"),
    [
        (rb'"\ud800"', rb'"\ue800"'),
        (rb'"\uDfFf"', rb'"\uEfFf"'),
        (rb'"\ud83d\ude00\ude00"', rb'"\ud83d\ude00\uee00"'),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ue83d\ud83d\ude00"'),
        (rb'"\ude00\ud83d"', rb'"\uee00\ue83d"'),
        (rb'"\\\ud800\\ud800"', rb'"\\\ue800\\ud800"'),
        (rb'"\ue800\ud800"', rb'"\ue800\uf800"'),
        (rb'"\uE800\uffff\uD800"', rb'"\uE800\uffff\uA800"'),
        (rb'"\ue800\uf800\ua800\ud800"', rb'"\ue800\uf800\ua800\ub800"'),
        (rb'"\ue800\uf800\ua800\ub800\ud800"', rb'"\ue800\uf800\ua800\ub800\uc800"'),
        (rb'"\\ue800\ud800"', rb'"\\ue800\ue800"'),
    ],
)
def test_another_letter_stands_in_and_can_be_taken_back(data: bytes, copy: bytes) -> None:
    found = readable_copy(data)
    assert found is not None
    assert found.data == copy
    assert found.restore(found.data) == data
    assert found.stands_in(read_text(copy))
    assert not found.stands_in("plain \U0001f600 text")


def test_when_every_letter_is_taken_there_is_no_copy() -> None:
    assert readable_copy(rb'"\ue800\uf800\ua800\ub800\uc800\ud800"') is None


def test_a_tolerant_decoder_reads_around_it() -> None:
    assert read_text(b'"plain"') == "plain"
    assert read_text(rb'"\ud83d\ude00 \ud83d"') == "😀 \ue83d"
    assert read_text(msgspec.Raw(rb'"\ud800"')) == "\ue800"


@pytest.mark.parametrize(
    "data", [b"", b"x", b'"\xff"', b'["\\ud800"', b"1", b"[" * 100_000, rb'["\ud800",' + b"[" * 100_000]
)
def test_a_tolerant_decoder_raises_only_decode_errors(data: bytes) -> None:
    for read in (read_text, read_list):
        with pytest.raises(msgspec.DecodeError):
            read(data)


def test_a_flood_of_half_characters_is_refused_rather_than_read_slowly() -> None:
    flood = b'{"a":"' + b"\\ud800" * 20_001 + b'"}'
    assert readable_copy(flood) is None
    assert readable_copy(b'{"a":"' + b"\\ud800" * 20_000 + b'"}') is not None
