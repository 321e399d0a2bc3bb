"""The text format of Prometheus, made from plain counts when it is asked for (ADR 0004)."""

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["CONTENT_TYPE", "Labels", "Page", "Teller", "by"]

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


def by(label: str, counts: Mapping[str, int]) -> list[tuple[Labels, float]]:
    """A sample for each key."""
    return [({label: key}, count) for key, count in sorted(counts.items())]


class Page:
    """Families with all their samples: each of them stands in one place, whoever they are of."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}

    def family(self, name: str, kind: str, text: str) -> list[str]:
        """The lines of one, its head among them."""
        head = [f"# HELP mooring_{name} {text}", f"# TYPE mooring_{name} {kind}"]
        return self._families.setdefault(name, head)

    def encode(self) -> bytes:
        """All of it."""
        return ("\n".join(line for lines in self._families.values() for line in lines) + "\n").encode()


class Teller:
    """Writes samples that have some labels in common."""

    def __init__(self, page: Page, common: Labels) -> None:
        self._page = page
        self._common = common

    def gauge(self, name: str, text: str, samples: Iterable[tuple[Labels, float]]) -> None:
        """What goes up and down."""
        self._tell(self._page.family(name, "gauge", text), name, samples)

    def counter(self, name: str, text: str, samples: Iterable[tuple[Labels, float]]) -> None:
        """What only grows."""
        self._tell(self._page.family(name, "counter", text), name, samples)

    def histogram(
        self, name: str, text: str, bounds: Sequence[float], buckets: list[int], total: float
    ) -> None:
        """How often each bound was not exceeded."""
        family, count, samples = self._page.family(name, "histogram", text), 0, []
        for bound, number in zip([*map(str, bounds), "+Inf"], buckets, strict=True):
            count += number
            samples.append(({"le": bound}, count))
        self._tell(family, f"{name}_bucket", samples)
        self._tell(family, f"{name}_sum", [({}, total)])
        self._tell(family, f"{name}_count", [({}, count)])

    def _tell(self, family: list[str], name: str, samples: Iterable[tuple[Labels, float]]) -> None:
        for labels, value in samples:
            # Names and reasons are ours and plain: nothing needs escaping.
            inside = ",".join(f'{key}="{word}"' for key, word in {**self._common, **labels}.items())
            # In full: rounded, a sum would stand still once it is large.
            family.append(f"mooring_{name}{{{inside}}} {value}" if inside else f"mooring_{name} {value}")
