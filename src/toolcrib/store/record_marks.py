"""Records that are looked for by their kind, in ledgers of any length: a store indexes them.

Starts and ends of calls are not among them: they are most of what a busy server writes, and are
found by their number or by the id of their call.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

MARKED_KINDS: Final = frozenset(
    {
        "container.expired",
        "container.used",
        "files.staged",
        "history.compacted",
        "model.responded",
        "prompt.answer_rejected",
        "prompt.answered",
        "prompt.started",
        "prompt.stopped",
        "question.answered",
        "question.asked",
        "question.closed",
        "session.payloads_deleted",
        "turn.started",
    }
)

MARKED_LIST: Final = ", ".join(f"'{kind}'" for kind in sorted(MARKED_KINDS))
"""The kinds as SQL has them in a list."""

FIRST_ROWS: Final = 16
MOST_ROWS: Final = 500


def marked(kinds: Collection[str] | None) -> tuple[str, ...]:
    """The kinds in order, where an index has them all; empty when it does not, or when every kind
    is asked for.
    """
    names = frozenset(kinds or ())
    return tuple(sorted(names)) if names and names <= MARKED_KINDS else ()


def first_rows(*, newest_first: bool) -> int:
    """How many rows to read before it is known how many are wanted: whoever reads back from the end
    mostly stops at the first that fits.
    """
    return FIRST_ROWS if newest_first else MOST_ROWS


def more_rows(count: int) -> int:
    """How many rows to read after so many were not enough."""
    return min(count * 4, MOST_ROWS)
