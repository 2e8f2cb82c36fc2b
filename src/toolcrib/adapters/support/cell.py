"""One cell of the support matrix: whether a provider can do something, within which limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast


@dataclass(frozen=True, slots=True)
class Cell:
    """Yes, perhaps within limits, or no with the reason and what to do instead."""

    is_supported: bool
    note: str = ""
    """Why not, or what else a reader should know of a yes."""
    most: int | None = None
    """The most entries of a list, or the largest number."""
    only: tuple[str, ...] = ()
    """The only values that are taken."""

    def refusal(self, value: Any) -> str | None:
        """Why this value cannot be taken; None when it can."""
        if not self.is_supported:
            return self.note
        if self.most is not None and (size := _size(value)) > self.most:
            return f"it takes at most {self.most}, not {size}"
        if self.only and value not in self.only:
            return f"it takes only {', '.join(self.only)}, not {value!r}"
        return None

    def text(self) -> str:
        """The cell in words, limits included."""
        limits = [
            f"at most {self.most}" if self.most is not None else "",
            ", ".join(self.only),
            self.note,
        ]
        said = "; ".join(filter(None, limits))
        word = "yes" if self.is_supported else "no"
        return f"{word}: {said}" if said else word


@dataclass(frozen=True, slots=True)
class Kind:
    """Where a kind of tool exists, and which of its options can be had there."""

    where: Mapping[str, Cell]
    """By provider; all of them."""
    options: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict[str, Any])
    """By option and provider; for a provider without the kind there is nothing to say."""

    def cell(self, provider: str, option: str | None = None) -> Cell:
        """The cell of an option, or of the kind itself. What is not written down is a no."""
        found = self.where[provider]
        if option is None or not found.is_supported:
            return found
        return self.options.get(option, {}).get(provider, _UNKNOWN)


YES: Final = Cell(True)
_UNKNOWN: Final = Cell(False, "nothing is known about it there; leave it at its default")


def _size(value: Any) -> int:
    if isinstance(value, Collection) and not isinstance(value, str):
        return len(cast("Collection[Any]", value))
    return value if isinstance(value, int) else 0
