"""Amounts of processors and memory, as Kubernetes writes them: `250m`, `1.5`, `512Mi`, `2G`."""

import re
from fractions import Fraction
from typing import NamedTuple

__all__ = ["Amount", "parse_amount", "parse_memory", "parse_quantity"]

_QUANTITY = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_UNITS = {
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000**power) for power, unit in enumerate(("k", "M", "G", "T"), 1)},
    **{unit: Fraction(1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti"), 1)},
}
LEAST_MEMORY_BYTES = 16 * 1024 * 1024
"""No Python starts with less: whoever writes less has forgotten the unit."""


class Amount(NamedTuple):
    """What is set aside, and what may be taken at most."""

    request: str
    limit: str | None = None


def parse_quantity(text: str) -> Fraction:
    """How much it is. Raises ValueError with a sentence for people."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no amount; write 250m or 1.5 for processors, 512Mi or 2Gi for memory")
    amount = Fraction(match[1]) * _UNITS[match[2] or ""]
    if not amount:
        raise ValueError(f"{text!r} is nothing; give more")
    return amount


def parse_amount(text: str) -> Amount:
    """`REQUEST[:LIMIT]`. Raises ValueError."""
    request, colon, limit = text.partition(":")
    asked = parse_quantity(request)
    if not colon:
        return Amount(request)
    if parse_quantity(limit) < asked:
        raise ValueError(f"{text!r}: the limit is below what is asked for; write REQUEST:LIMIT")
    return Amount(request, limit)


def parse_memory(text: str) -> Amount:
    """The same, of bytes. Raises ValueError."""
    amount = parse_amount(text)
    if parse_quantity(amount.request) < LEAST_MEMORY_BYTES:
        number = amount.request.rstrip("mkKMGTi")
        meant = f"{number}Mi" if parse_quantity(f"{number}Mi") >= LEAST_MEMORY_BYTES else "256Mi"
        raise ValueError(f"{amount.request!r} is too little memory for any pod; write {meant}, say")
    return amount
