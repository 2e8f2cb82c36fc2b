"""Questions of running calls to a person: what is asked, and what may come back."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from toolcrib.approval.caller import NOBODY, Caller
from toolcrib.approval.decision import Actor
from toolcrib.tools.identity import ToolRef


@dataclass(frozen=True, slots=True)
class Question:
    """What a person sees. Secrets of the call are replaced in `text`."""

    question_id: str
    session_id: str
    call_id: str
    tool: ToolRef
    text: str
    created_at: float
    schema: dict[str, Any] = field(default_factory=dict[str, Any])
    """The JSON Schema of the answer."""
    deadline: float | None = None
    """When the question expires, in seconds since the epoch."""
    is_secret: bool = False
    """Whether the answer is a secret: it must not be shown or kept, and is not recorded."""
    parent_call_id: str | None = None
    turn: int = 0
    caller: Caller = NOBODY
    """Who asked for the call, and so who may answer."""
    fault: str | None = None
    """What was wrong with the last answer, when a responder is asked again."""


ResponseAction = Literal["answer", "decline", "cancel", "nobody"]


@dataclass(frozen=True, slots=True)
class QuestionResponse:
    """What came of a question: an answer with its JSON `value`, a person who declines or leaves, or
    `nobody` who could be asked. `reason` is for the handler and the record.
    """

    action: ResponseAction
    value: Any = None
    reason: str = ""
    actor: Actor | None = None
    """Who responded; None stands for the responder itself."""


class Responder(Protocol):
    """Answers questions while the program runs. `None` means that it has no answer: the question
    stays open for others, if there are any.
    """

    async def respond(self, question: Question) -> QuestionResponse | None:
        """Answer `question`, or say why there is no answer."""
        ...


ResponseCallback = Callable[[Question], object]
"""Takes the question; returns the value of the answer, a `QuestionResponse`, `None`, or an
awaitable of one of these.
"""


class CallbackResponder:
    """Calls a function. A plain function runs in a worker thread, so it may block.

    What it returns is the answer; `None` is none. To decline, return a `QuestionResponse`.
    """

    def __init__(self, fn: ResponseCallback, name: str = "callback") -> None:
        self._fn = fn
        self._name = name

    async def respond(self, question: Question) -> QuestionResponse | None:
        """Call the function. Its exceptions propagate."""
        answer = await self._call(question)
        if answer is None or isinstance(answer, QuestionResponse):
            return answer
        return QuestionResponse("answer", answer, actor=Actor("rule", self._name))

    async def _call(self, question: Question) -> object:
        if inspect.iscoroutinefunction(self._fn):
            answer = self._fn(question)
        else:
            import anyio.to_thread

            answer = await anyio.to_thread.run_sync(self._fn, question, abandon_on_cancel=True)
        return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer
