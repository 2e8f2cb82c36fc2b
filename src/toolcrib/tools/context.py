"""The context of a call, for handlers, hooks and instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.calls.outcome import Outcome
    from toolcrib.session.bus import EventBus
    from toolcrib.session.session import Session


A = TypeVar("A")


class Binding(Protocol):
    """The connection of a context to a running call."""

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Outcome: ...

    async def ask(
        self,
        text: str,
        answer: Any,
        *,
        choices: Sequence[str] | None,
        is_secret: bool,
        seconds: float | None,
    ) -> Any: ...

    def progress(self, current: float, total: float | None, message: str | None) -> None: ...

    def output(self, chunk: str) -> None: ...

    def emit(self, type: str, data: Any) -> None: ...


@dataclass(slots=True, eq=False)
class ToolContext:
    """The context of one call. Each call has its own; changing it affects no other.

    The executor builds it. `ToolContext(session_id=..., cwd=...)` makes one by hand, to try a
    handler on its own.
    """

    session_id: str
    cwd: str
    environment: dict[str, str] = field(default_factory=dict[str, str])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    call_id: str = ""
    tool_name: str = ""
    idempotency_key: str = ""
    """Stable for this call across retries and restarts: pass it to services that accept one."""
    tool_call_approved: bool = False
    approved_when_asked: bool = False
    """Whether somebody was asked about this very call and said yes; a grant is a yes given before
    it."""
    deadline: float | None = None
    """When the call must end, in the time of the running event loop."""
    turn: int = 0
    parent_call_id: str | None = None
    deps: Any = None
    session: Session | None = None
    bus: EventBus | None = None
    prompt: Any = None
    adapter: Any = None
    run: Any = None
    """pydantic-ai's run context, when one of its agents made the call."""
    binding: Binding | None = field(default=None, repr=False)

    @property
    def tool_call_id(self) -> str:
        """The id of the call, under the name that pydantic-ai's run context uses."""
        return self.call_id

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Outcome:
        """Call another tool through the full path. The tool must be listed in `uses`.

        The outcome returns to the handler, never to the model: a denied or failed call is an
        outcome with a failure, not an exception.
        """
        return await self._bound().call_tool(name, arguments or {})

    @overload
    async def ask(
        self,
        question: str,
        *,
        choices: Sequence[str] | None = None,
        secret: bool = False,
        seconds: float | None = None,
    ) -> str: ...

    @overload
    async def ask(
        self,
        question: str,
        answer: type[A],
        *,
        secret: bool = False,
        seconds: float | None = None,
    ) -> A: ...

    @overload
    async def ask(
        self,
        question: str,
        answer: Any,
        *,
        secret: bool = False,
        seconds: float | None = None,
    ) -> Any: ...

    async def ask(
        self,
        question: str,
        answer: Any = str,
        *,
        choices: Sequence[str] | None = None,
        secret: bool = False,
        seconds: float | None = None,
    ) -> Any:
        """Ask the person behind the call, and return the answer in its type: text, a number, a
        bool, an enum, a `Literal`, a dataclass or a pydantic model; with `choices`, one of those
        texts. A `secret` answer is never recorded.

        While the question is open, the tool's time limit stands still. Raises `QuestionDeclined`,
        `QuestionCancelled`, `QuestionExpired` (after `seconds`) or `NobodyToAsk`; a handler
        that catches none of them fails with the kind that fits.
        """
        return await self._bound().ask(
            question, answer, choices=choices, is_secret=secret, seconds=seconds
        )

    def progress(
        self, current: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report the progress of the call. Frequent updates are cheap: they are coalesced."""
        self._bound().progress(current, total, message)

    def output(self, chunk: str) -> None:
        """Stream a piece of output to observers of the session; the model does not see it."""
        self._bound().output(chunk)

    def emit(self, type: str, data: Any = None) -> None:
        """Emit an event of the tool; `type` must start with `tool.<name>.`."""
        self._bound().emit(type, data)

    def _bound(self) -> Binding:
        if self.binding is None:
            raise UsageError(
                "this context was made by hand and is not bound to a call; run the tool through "
                "an Executor to call other tools or to emit events"
            )
        return self.binding
