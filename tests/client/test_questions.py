"""Questions of handlers over HTTP: the same as in the process, for both clients and a chat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import pytest

from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import model
from tests.transports.http.served_runtime import CALLERS, OWNERS, READERS, TOKENS
from toolcrib import PromptResult, RuntimeConfig, ToolContext, ToolInvoked, create_runtime, tool
from toolcrib.client import AsyncClient, Refused
from toolcrib.ledger.question_events import QuestionAsked
from toolcrib.testing import calls, says
from toolcrib.transports.http.server import HttpServer


@tool
async def pick(ctx: ToolContext) -> str:
    """Ask which account."""
    return f"took {await ctx.ask('Which account?', Literal['main', 'savings'])}"


@asynccontextmanager
async def server(**config: Any) -> AsyncGenerator[str]:
    options = RuntimeConfig(tools=[pick], drain_seconds=0.1, **config)
    async with (
        create_runtime(options) as runtime,
        HttpServer(runtime, port=0, tokens=TOKENS) as listening,
        asyncio.timeout(PATIENCE),
    ):
        yield listening.url


async def first_question(client: AsyncClient, session_id: str) -> QuestionAsked:
    async with client.events(session_id) as events:
        async for event in events:
            if isinstance(event, QuestionAsked):
                return event
    raise AssertionError("the session was closed")


async def test_a_client_answers_the_question_of_its_call() -> None:
    """One request runs the call, another one brings it the answer."""
    async with server() as url, AsyncClient(url, CALLERS) as client:
        session_id = (await client.create_session()).session_id
        call = asyncio.ensure_future(client.call_tool(session_id, "pick"))
        event = await first_question(client, session_id)
        listed = (await client.list_questions()).questions
        answered = await client.answer_question(event.question.question_id, "savings")
        result = await call

    assert [each.question_id for each in listed] == [event.question.question_id]
    assert listed[0].schema == {"enum": ["main", "savings"], "type": "string"}
    assert answered.call_id == result.call_id
    assert result.text == "took savings"


async def test_somebody_else_is_answered_404_and_an_auditor_403() -> None:
    """A question is the caller's; to others it does not exist."""
    async with server() as url, AsyncClient(url, OWNERS) as owner:
        session_id = (await owner.create_session()).session_id
        call = asyncio.ensure_future(owner.call_tool(session_id, "pick"))
        question = (await first_question(owner, session_id)).question
        statuses: list[int] = []
        async with httpx2.AsyncClient(base_url=url) as http:
            for token in (CALLERS, READERS):
                answer = await http.post(
                    f"/v1/questions/{question.question_id}/answer",
                    json={"value": "main"},
                    headers={"Authorization": f"Bearer {token}"},
                )
                statuses.append(answer.status_code)
        with pytest.raises(Refused) as misfit:
            await owner.answer_question(question.question_id, "third")
        await owner.answer_question(question.question_id, "main")
        result = await call

    assert statuses == [404, 403]
    assert misfit.value.kind == "invalid"
    assert "'main' or 'savings'" in misfit.value.message
    assert result.text == "took main"


async def test_a_chat_over_http_yields_and_answers() -> None:
    """The loop of the process: the event is all that `chat.answer` needs."""
    adapter = model([calls("pick", {})], [says("Done.")])
    events: list[Any] = []
    async with server(adapter=adapter) as url, AsyncClient(url, OWNERS) as client:
        chat = await client.chat("desk")
        async for event in chat.send("Go!"):
            events.append(event)
            if isinstance(event, QuestionAsked):
                await chat.answer(event, "main")

    assert [event.message for event in events if isinstance(event, ToolInvoked)] == ["took main"]
    assert isinstance(events[-1], PromptResult)
