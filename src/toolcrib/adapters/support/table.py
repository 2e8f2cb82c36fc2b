"""Support tables: which options of a kind of tool each provider takes, and within which limits.

A table is written as text, one row per option and one column per provider that has the tool:

    yes     the provider takes the option
    <=100   a number up to 100, or a list of up to 100 entries
    +a      the provider takes it, with note `a`; a note that is a tuple lists the only values
    -b      the provider does not take it, for the reason in note `b`
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

PROVIDERS: Final = (
    "openai",
    "openai-responses",
    "openai-chat",
    "anthropic",
    "google",
    "google-vertex",
    "groq",
    "bedrock",
    "xai",
    "mistral",
    "openrouter",
)
"""`openai` is this package's own adapter; the others go through pydantic-ai."""

FALLBACK: Final = "declare a local tool, or name one as fallback"
_MISTRAL: Final = f"pydantic-ai uses Mistral's chat API, which runs no tools; {FALLBACK}"
_COLUMNS: Final = {
    **{name: name for name in PROVIDERS},
    "responses": "openai-responses",
    "chat": "openai-chat",
    "vertex": "google-vertex",
}
_TOOL_ROW: Final = "(tool)"

Note = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """Yes, perhaps within limits, or no with the reason and what to do instead."""

    is_supported: bool
    note: str = ""
    """The reason of a no, or a remark on a yes."""
    most: int | None = None
    """The most entries of a list, or the largest number."""
    only: tuple[str, ...] = ()
    """The only values that the provider takes."""

    def refusal(self, value: Any) -> str | None:
        """Why the provider does not take this value; None when it does."""
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
        details = "; ".join(filter(None, limits))
        word = "yes" if self.is_supported else "no"
        return f"{word}: {details}" if details else word


@dataclass(frozen=True, slots=True)
class KindSupport:
    """The providers that have a kind of tool, and the options that they take for it."""

    tool: Mapping[str, Cell]
    """Whether a provider has the tool, by provider; all of them."""
    options: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict[str, Any])
    """By option and provider, for the providers that have the tool."""

    def cell(self, provider: str, option: str | None = None) -> Cell:
        """The cell of an option, or of the tool itself. An option without a cell is a no."""
        tool = self.tool[provider]
        if option is None or not tool.is_supported:
            return tool
        return self.options.get(option, {}).get(provider, _UNKNOWN)


_UNKNOWN: Final = Cell(False, "nothing is known about it there; leave it at its default")


def support_table(
    text: str,
    *,
    notes: Mapping[str, Note] | None = None,
    absent: Mapping[str, str] | None = None,
    elsewhere: str,
) -> KindSupport:
    """Read a table. `absent` says why a provider has no such tool; `elsewhere` is the reason for
    those that it does not name. Raises `ValueError` for a table that is not well-formed.
    """
    header, *lines = (line.split() for line in text.strip().splitlines())
    providers = [_COLUMNS[name] for name in header]
    rows: dict[str, dict[str, Cell]] = {}
    for option, *tokens in lines:
        cells = [_cell(token, notes or {}) for token in tokens]
        rows[option] = dict(zip(providers, cells, strict=True))
    reasons = {"mistral": _MISTRAL, **(absent or {})}
    missing = {name: Cell(False, reasons.get(name, elsewhere)) for name in PROVIDERS}
    return KindSupport({**missing, **rows.pop(_TOOL_ROW)}, rows)


def _cell(token: str, notes: Mapping[str, Note]) -> Cell:
    if token == "yes":
        return Cell(True)
    if token.startswith("<="):
        return Cell(True, most=int(token.removeprefix("<=")))
    sign, key = token[:1], token[1:]
    if sign not in ("+", "-") or key not in notes:
        raise ValueError(f"{token!r} is no cell of a support table; its notes are {sorted(notes)}")
    note = notes[key]
    if isinstance(note, tuple):
        return Cell(True, only=note)
    return Cell(sign == "+", note)


def _size(value: Any) -> int:
    if isinstance(value, Collection) and not isinstance(value, str):
        return len(cast("Collection[Any]", value))
    return value if isinstance(value, int) else 0
