"""Numbers as people read them: three digits that matter, thousands apart, ratios to Mooring."""

__all__ = ["NOTHING", "figure", "times", "with_unit"]

NOTHING = "–"


def figure(value: float | None, unit: str) -> str:
    """The number alone, for a column whose unit is known."""
    if value is None:
        return NOTHING
    if unit == "calls" or abs(value) >= 100:
        return f"{value:,.0f}"
    # Three digits: 0.0815, 0.815, 8.15, 81.5. The exponent is read after rounding, so 9.996 is 10.0.
    exponent = int(f"{value:.2e}".partition("e")[2])
    return f"{value:.{2 - exponent}f}" if value else "0"


def with_unit(number: str, unit: str) -> str:
    """The number and its unit, for a sentence."""
    return number + unit if unit == "×" else f"{number} {unit}"


def times(ratio: float | None) -> str:
    """A ratio with two digits that matter: 0.83×, 1.2×, 47×."""
    if ratio is None:
        return ""
    if ratio >= 9.95:
        return f"{ratio:,.0f}×"
    if ratio >= 0.995:
        return f"{ratio:.1f}×"
    return f"{ratio:.2f}×" if ratio >= 0.0995 else f"{ratio:.2g}×"
