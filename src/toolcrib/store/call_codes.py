"""The numbers that stand for words in rows of the index of calls, in every database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar, get_args

from toolcrib.approval.decision import ActorKind
from toolcrib.store.call_query import OPEN_STATUSES, ROW_DECISIONS, ROW_STATUSES, RowKind

T = TypeVar("T")

# Numbers of these are in databases: a new one goes to the end.
KINDS: Final[tuple[RowKind, ...]] = ("tool", "model")
STATUSES: Final = ROW_STATUSES
DECISIONS: Final = ROW_DECISIONS
ACTORS: Final[tuple[ActorKind, ...]] = get_args(ActorKind)
OPEN_NUMBERS: Final = ", ".join(
    str(number) for number, status in enumerate(STATUSES) if status in OPEN_STATUSES
)
"""The statuses of calls that have not ended, as SQL has them in a list."""


def code_of(choices: Sequence[T], choice: T | None) -> int | None:
    """The number that stands for a word."""
    return None if choice is None else choices.index(choice)


def choice_of(choices: Sequence[T], number: int | None) -> T | None:
    """What a number in a row stands for; None for one that a newer version wrote."""
    return choices[number] if number is not None and number < len(choices) else None


def status_numbers(statuses: Sequence[str]) -> str:
    """Statuses as SQL has them in a list."""
    return ", ".join(str(STATUSES.index(status)) for status in STATUSES if status in statuses)
