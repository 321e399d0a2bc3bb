"""Parcels: bytes and descriptors that belong together, on a stream that keeps both in order. Pure.

A parcel is `LENGTH COUNT BYTES`: two numbers of four bytes, then so many bytes. Its descriptors are sent with
its first byte, so that they have come when its last byte has; the count says how many of those that came are
its own.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from mooring.errors import RemoteProtocolError

__all__ = ["MAX_PARCEL_BYTES", "MOST_DESCRIPTORS", "Parcel", "ParcelDecoder", "encode_parcel"]

MAX_PARCEL_BYTES = 256 * 1024 * 1024
"""Four of the largest requests. What a session keeps is far less."""
MOST_DESCRIPTORS = 64
"""Of one parcel; the system takes 253 at once. A child has four, a listener one for each of its addresses."""
_HEAD = struct.Struct("!II")


class Parcel(NamedTuple):
    """One of them. Whoever has it owns its descriptors."""

    data: bytes
    descriptors: tuple[int, ...] = ()


def encode_parcel(data: bytes, descriptors: Sequence[int]) -> bytes:
    """What is to be sent, the descriptors with its first byte."""
    if len(data) > MAX_PARCEL_BYTES or len(descriptors) > MOST_DESCRIPTORS:
        text = f"{len(data)} bytes and {len(descriptors)} descriptors are too much for one parcel"
        raise RemoteProtocolError(text, code="parcel_too_large")
    return _HEAD.pack(len(data), len(descriptors)) + data


class ParcelDecoder:
    """Feed it what was read; it returns the parcels that are now complete."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._descriptors: list[int] = []

    def feed(self, data: bytes, descriptors: Sequence[int] = ()) -> list[Parcel]:
        """Raises RemoteProtocolError, after which there is nothing more to feed."""
        self._data += data
        self._descriptors += descriptors
        parcels = []
        while (parcel := self._next()) is not None:
            parcels.append(parcel)
        return parcels

    def _next(self) -> Parcel | None:
        if len(self._data) < _HEAD.size:
            return None
        length, count = _HEAD.unpack_from(self._data)
        if length > MAX_PARCEL_BYTES or count > MOST_DESCRIPTORS:
            raise RemoteProtocolError("this is no parcel", code="bad_parcel")
        end = _HEAD.size + length
        if len(self._data) < end:
            return None
        if count > len(self._descriptors):
            raise RemoteProtocolError("a parcel came without its descriptors", code="bad_parcel")
        data, own = bytes(self._data[_HEAD.size : end]), tuple(self._descriptors[:count])
        del self._data[:end], self._descriptors[:count]
        return Parcel(data, own)

    def take_unclaimed(self) -> list[int]:
        """Descriptors of a parcel that has not come whole: nobody else will close them."""
        unclaimed, self._descriptors = self._descriptors, []
        return unclaimed
