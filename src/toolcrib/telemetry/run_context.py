"""Where code runs, for OpenTelemetry: in which runs of handlers.

The span of a run is the current one while its handler runs, so that what the handler does, the
calls it makes and the prompts it evaluates come under it, also in other tasks and threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from opentelemetry.context import attach, create_key, get_current, get_value, set_value
from opentelemetry.trace import set_span_in_context

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from toolcrib.session.turns import OpenTurn
    from toolcrib.telemetry.conventions import Attributes

_RUN: Final = create_key("toolcrib-run")


@dataclass(slots=True, eq=False)
class HandlerRun:
    """A handler that runs, and its span. `labels` are what its metrics are told apart by."""

    span: Span
    labels: Attributes
    began_at: float
    turn: OpenTurn | None
    around: HandlerRun | None
    """The run whose handler made this call."""
    outside: Context
    """What was current before."""
    _waiting: set[str] = field(default_factory=set[str])
    _waiting_since: float = 0.0
    _waited: float = 0.0

    def hold(self, call_id: str, at: float) -> None:
        """A call that the handler made waits for somebody."""
        if not self._waiting:
            self._waiting_since = at
        self._waiting.add(call_id)

    def release(self, call_id: str, at: float) -> None:
        """That call no longer waits, if it did."""
        if call_id in self._waiting:
            self._waiting.remove(call_id)
            if not self._waiting:
                self._waited += at - self._waiting_since

    def seconds(self, at: float) -> float:
        """How long the handler has run, without the time in which calls of it waited."""
        return max(0.0, at - self.began_at - self._waited)


def current_run() -> HandlerRun | None:
    """The innermost run that the code is part of."""
    found = get_value(_RUN)
    return found if isinstance(found, HandlerRun) else None


def current_runs() -> Iterator[HandlerRun]:
    """All runs that the code is part of, innermost first."""
    run = current_run()
    while run is not None:
        yield run
        run = run.around


def enter(run: HandlerRun, parent: Context) -> None:
    """Let what follows in this task be part of the run."""
    attach(set_value(_RUN, run, set_span_in_context(run.span, parent)))


def leave(run: HandlerRun) -> None:
    """Let what follows be part of what was around the run.

    Not by token: a coroutine may be closed in another context than the one it ran in, where
    there is nothing to put back.
    """
    if get_value(_RUN, get_current()) is run:
        attach(run.outside)
