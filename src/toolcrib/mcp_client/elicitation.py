"""Questions of a mounted server to a person: they become questions of the call that runs there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import InvalidTool, QuestionDeclined, QuestionUnanswered, UsageError

if TYPE_CHECKING:
    import mcp_types

    from toolcrib.tools.context import ToolContext

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class AskingCall:
    """A call that runs at a server. `label` makes what people read of the server's words."""

    context: ToolContext
    label: Callable[[str], str]


_CALL_THERE: Final[ContextVar[AskingCall | None]] = ContextVar("toolcrib_call_there", default=None)


class ServerQuestions:
    """Answers the elicitations of one connection.

    In the stateless protocol a question comes as the result of its call. In the other one it comes
    by itself: it is put to the person behind the one call that runs there, and to nobody when
    several do, for they may be of different people.
    """

    def __init__(self) -> None:
        self._running: list[AskingCall] = []

    @contextmanager
    def of(self, call: AskingCall) -> Generator[None]:
        """Let questions that come meanwhile be those of a call."""
        before = _CALL_THERE.get()
        _CALL_THERE.set(call)
        self._running.append(call)
        try:
            yield
        finally:
            self._running.remove(call)
            _CALL_THERE.set(before)

    async def __call__(self, context: Any, params: mcp_types.ElicitRequestParams) -> Any:
        """The answer to a question; `cancel` when there is nobody to ask."""
        import mcp_types

        call = self._asking()
        if call is None or not isinstance(params, mcp_types.ElicitRequestFormParams):
            return mcp_types.ElicitResult(action="cancel")
        try:
            content = await call.context.ask(call.label(params.message), params.requested_schema)
        except QuestionDeclined:
            return mcp_types.ElicitResult(action="decline")
        except (QuestionUnanswered, InvalidTool, UsageError) as error:
            logger.info("a question of a mounted server got no answer: %s", type(error).__name__)
            return mcp_types.ElicitResult(action="cancel")
        return mcp_types.ElicitResult(action="accept", content=content)

    def _asking(self) -> AskingCall | None:
        call = _CALL_THERE.get()
        if call is not None and call in self._running:
            return call
        return self._running[0] if len(self._running) == 1 else None
