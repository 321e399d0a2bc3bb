"""Parcels come out as they went in, however the stream was cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import RemoteProtocolError
from mooring.host import parcels
from mooring.host.parcels import Parcel, ParcelDecoder, encode_parcel

MANY = st.lists(
    st.builds(Parcel, st.binary(max_size=40), st.lists(st.integers(3, 99), max_size=4).map(tuple))
)


@given(MANY, st.lists(st.integers(1, 60)))
def test_any_cut_gives_the_same_parcels(sent: list[Parcel], cuts: list[int]) -> None:
    decoder, came = ParcelDecoder(), []
    for parcel in sent:
        rest, own = encode_parcel(*parcel), parcel.descriptors
        while rest:
            size = cuts.pop() if cuts else len(rest)
            came += decoder.feed(rest[:size], own)  # with the first byte, as they are sent
            rest, own = rest[size:], ()
    assert came == sent
    assert decoder.take_unclaimed() == []


def test_what_is_no_parcel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "MAX_PARCEL_BYTES", 8)
    with pytest.raises(RemoteProtocolError, match="too much"):
        encode_parcel(b"nine bytes", ())
    with pytest.raises(RemoteProtocolError, match="too much"):
        encode_parcel(b"", [1] * (parcels.MOST_DESCRIPTORS + 1))
    with pytest.raises(RemoteProtocolError, match="no parcel"):
        ParcelDecoder().feed(b"GET / HTTP/1.1\r\n")
    with pytest.raises(RemoteProtocolError, match="without its descriptors"):
        ParcelDecoder().feed(encode_parcel(b"", (7,)))


def test_descriptors_of_a_parcel_that_never_came_whole_are_found() -> None:
    decoder = ParcelDecoder()
    assert decoder.feed(encode_parcel(b"whole", (5,))[:-1], (5,)) == []
    assert decoder.take_unclaimed() == [5]
    assert decoder.take_unclaimed() == []
