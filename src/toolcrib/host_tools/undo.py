"""Keeps what a block of code changed, so that it can be taken back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from toolcrib.host_tools.registration import Key, Registration


@dataclass(frozen=True, slots=True)
class Step:
    """What stood in one place before a change and after it."""

    key: Key
    before: Registration | None
    after: Registration | None


@dataclass(frozen=True, slots=True, eq=False)
class _Journal:
    owner: object
    outer: _Journal | None
    steps: list[Step] = field(default_factory=list[Step])


_JOURNAL: ContextVar[_Journal | None] = ContextVar("toolcrib_host_tools_journal", default=None)


def write_down(owner: object, steps: Sequence[Step]) -> None:
    """Add to the journal that the running code keeps for `owner`, if it keeps one."""
    journal = _JOURNAL.get()
    while journal is not None and journal.owner is not owner:
        journal = journal.outer
    if journal is not None:
        journal.steps.extend(steps)


@contextmanager
def taken_back_on_error(
    owner: object, take_back: Callable[[Sequence[Step]], None]
) -> Generator[Sequence[Step]]:
    """Keep a journal of `owner` for a block, and hand it to `take_back` if the block raises.

    The block gets to see what is written down.
    """
    journal = _Journal(owner, _JOURNAL.get())
    token = _JOURNAL.set(journal)
    try:
        yield journal.steps
    except BaseException:
        _JOURNAL.reset(token)
        take_back(journal.steps)
        raise
    _JOURNAL.reset(token)
    # A block around this one may still fail, and takes this one back with it.
    write_down(owner, journal.steps)
