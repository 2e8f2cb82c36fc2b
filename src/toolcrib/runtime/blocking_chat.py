"""`BlockingChat`: a conversation for programs without an event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from toolcrib.runtime.approval_messages import (
        AnsweredQuestion,
        ApprovalFacts,
        GrantTerms,
        QuestionFacts,
    )
    from toolcrib.runtime.blocking_operations import Complete
    from toolcrib.runtime.chat import Asked, Chat, ChatEvent, ChatTurn, Exchange, Waiting
    from toolcrib.runtime.config import WhenBusy
    from toolcrib.runtime.messages import Cancelled, PromptResult, Tools


class BlockingTurn:
    """A prompt that is answered. Iterate it for its events, and last a `PromptResult`; see
    `ChatTurn`.
    """

    def __init__(self, turn: ChatTurn, complete: Complete) -> None:
        self._turn = turn
        self._complete = complete

    @property
    def result(self) -> PromptResult:
        """The result. Raises `UsageError` while the turn is not over."""
        return self._turn.result

    def wait(self) -> PromptResult:
        """Pass over the events that are left, and return the result."""
        for _ in self:
            pass
        return self.result

    def close(self) -> None:
        """Stop following the events. The prompt goes on."""
        self._complete(self._turn.aclose())

    def __iter__(self) -> BlockingTurn:
        return self

    def __next__(self) -> ChatEvent:
        event = self._complete(_next(self._turn))
        if event is None:
            raise StopIteration
        return event


class BlockingChat:
    """A conversation with the model of a runtime, whose methods return when they are done; see
    `Chat`.
    """

    def __init__(self, chat: Chat, complete: Complete) -> None:
        self.session_id = chat.session_id
        self._chat = chat
        self._complete = complete

    def send(
        self, text: str, *, waits: bool = True, when_busy: WhenBusy | None = None
    ) -> BlockingTurn:
        """Send what the user wrote. The turn begins with its first event."""
        return BlockingTurn(self._chat.send(text, waits=waits, when_busy=when_busy), self._complete)

    def resume(self, *, waits: bool = True) -> BlockingTurn:
        """Continue the prompt that waits or was interrupted, also by a crash."""
        return BlockingTurn(self._chat.resume(waits=waits), self._complete)

    def is_unfinished(self) -> bool:
        """Whether there is a prompt to resume."""
        return self._complete(self._chat.is_unfinished())

    def pending(self) -> list[ApprovalFacts]:
        """The requests of this session that wait for a decision, oldest first."""
        return self._complete(self._chat.pending())

    def approve(
        self,
        request: Waiting,
        *,
        arguments: Mapping[str, Any] | None = None,
        grant: GrantTerms | None = None,
    ) -> ApprovalFacts:
        """Let a call run, with other `arguments` or with a `grant` for calls to come, if given."""
        return self._complete(self._chat.approve(request, arguments=arguments, grant=grant))

    def deny(self, request: Waiting, reason: str | None = None) -> ApprovalFacts:
        """Refuse a call; the model is told the reason."""
        return self._complete(self._chat.deny(request, reason))

    @overload
    def answer(self, request: Asked, value: Any) -> AnsweredQuestion: ...

    @overload
    def answer(self, request: Waiting, value: Any) -> ApprovalFacts: ...

    def answer(self, request: Waiting | Asked, value: Any) -> ApprovalFacts | AnsweredQuestion:
        """Answer a question of a running call, or a request for approval in the tool's place."""
        return self._complete(self._chat.answer(request, value))

    def decline(self, question: Asked, reason: str | None = None) -> AnsweredQuestion:
        """Do not answer a question of a running call."""
        return self._complete(self._chat.decline(question, reason))

    def questions(self) -> list[QuestionFacts]:
        """The open questions of this session's calls, oldest first."""
        return self._complete(self._chat.questions())

    def cancel(self) -> Cancelled:
        """Stop the prompt that runs, or abandon the one that waits."""
        return self._complete(self._chat.cancel())

    def tools(self) -> Tools:
        """The tools that the model may use."""
        return self._complete(self._chat.tools())

    def history(self) -> list[Exchange]:
        """The conversation so far, as the ledger has it."""
        return self._complete(self._chat.history())

    def close(self) -> None:
        """Close the session. It stays in the store, and a prompt that waits can be resumed."""
        self._complete(self._chat.close())


async def _next(turn: ChatTurn) -> ChatEvent | None:
    try:
        return await anext(turn)
    except StopAsyncIteration:
        return None
