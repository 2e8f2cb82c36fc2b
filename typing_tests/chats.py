"""What the type checker knows of a chat."""

from typing import assert_type

from toolcrib import (
    ApprovalRequested,
    Chat,
    Event,
    PromptResult,
    RuntimeConfig,
    TextDelta,
    create_runtime,
)
from toolcrib.ledger import QuestionAsked
from toolcrib.runtime import ApprovalFacts, Exchange
from toolcrib.runtime.approval_messages import AnsweredQuestion


async def converse(chat: Chat) -> None:
    """Events and results have types."""
    turn = chat.send("hello")
    async for event in turn:
        assert_type(event, Event | PromptResult)
        match event:
            case TextDelta(text=text):
                assert_type(text, str)
            case ApprovalRequested():
                assert_type(await chat.approve(event, arguments={"count": 3}), ApprovalFacts)
            case QuestionAsked():
                assert_type(await chat.answer(event, "savings"), AnsweredQuestion)
                assert_type(await chat.decline(event), AnsweredQuestion)
            case PromptResult(pending=pending):
                assert_type(pending, list[str])
            case _:
                pass
    assert_type(turn.result, PromptResult)
    assert_type(await chat.resume(), PromptResult)
    assert_type(await chat.history(), list[Exchange])
    assert_type(await chat.pending(), list[ApprovalFacts])
    chat.send(5)  # pyright: ignore[reportArgumentType]
    await chat.deny(turn)  # pyright: ignore[reportArgumentType]
    chat.send("x", when_busy="later")  # pyright: ignore[reportArgumentType]


async def open_chat() -> None:
    """A runtime opens chats."""
    runtime = create_runtime(RuntimeConfig())
    assert_type(await runtime.chat("desk"), Chat)
    await runtime.chat(5)  # pyright: ignore[reportArgumentType]
