"""`Cost`: what something cost, part by part, each with the table that says so.

A price that nobody knows stays unknown; it is never nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

NANO: Final = 1_000_000_000
"""Amounts are whole numbers of billionths of a US dollar, so that sums are exact."""


def nanos_of(dollars: Decimal) -> int:
    """An amount in billionths of a dollar."""
    return int((dollars * NANO).to_integral_value(ROUND_HALF_EVEN))


@dataclass(frozen=True, slots=True)
class CostPart:
    """The cost of one thing that a provider bills."""

    what: str
    """`tokens`, or what is billed by the piece: `web_search`, `file_search`, `container`, ..."""
    of: str
    """What it belongs to: the model, or the provider, or the container."""
    quantity: float
    nanos: int | None
    """None when nobody knows the price."""
    source: str | None = None
    """The table that the price is from."""
    as_of: str | None = None
    """The day for which the table gives it (ISO 8601)."""

    @property
    def dollars(self) -> float | None:
        """The amount in US dollars."""
        return None if self.nanos is None else self.nanos / NANO


@dataclass(frozen=True, slots=True)
class Cost:
    """What something cost: the sum of its parts."""

    parts: tuple[CostPart, ...] = ()

    @property
    def nanos(self) -> int | None:
        """The sum of what has a price; None when nothing has one."""
        known = [part.nanos for part in self.parts if part.nanos is not None]
        return sum(known) if known else None

    @property
    def dollars(self) -> float | None:
        """The sum of what has a price, in US dollars; None when nothing has one."""
        nanos = self.nanos
        return None if nanos is None else nanos / NANO

    @property
    def unpriced(self) -> tuple[CostPart, ...]:
        """What has no known price: the true cost is higher by it."""
        return tuple(part for part in self.parts if part.nanos is None)

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables that the prices are from."""
        return tuple(sorted({part.source for part in self.parts if part.source is not None}))

    def __add__(self, other: Cost) -> Cost:
        """Both together; parts that say the same of the same are one."""
        merged: dict[tuple[str | None, ...], CostPart] = {}
        for part in (*self.parts, *other.parts):
            is_priced = "priced" if part.nanos is not None else None
            key = part.what, part.of, part.source, part.as_of, is_priced
            merged[key] = part if (before := merged.get(key)) is None else _together(before, part)
        return Cost(tuple(merged.values()))


def _together(one: CostPart, other: CostPart) -> CostPart:
    nanos = None if one.nanos is None or other.nanos is None else one.nanos + other.nanos
    quantity = one.quantity + other.quantity
    return CostPart(one.what, one.of, quantity, nanos, one.source, one.as_of)
