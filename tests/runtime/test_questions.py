"""Questions and nested approvals behind a runtime: who may answer, and what becomes of the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import CALLER, Json, model, new_session, refusal
from toolcrib import (
    Approve,
    CallbackApprover,
    MemoryStore,
    PromptResult,
    RuntimeConfig,
    SqliteStore,
    ToolContext,
    ToolInvoked,
    create_runtime,
    tool,
)
from toolcrib.approval import CallbackResponder
from toolcrib.ledger.events import ApprovalRequested, Event
from toolcrib.ledger.question_events import QuestionAnswered, QuestionAsked, QuestionClosed
from toolcrib.runtime import OWNER, Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.testing import calls, says

HTTP_CALLER = replace(CALLER, transport="http")
OTHER = Principal("eve", frozenset({"caller"}), transport="http")


@tool
async def pick(ctx: ToolContext) -> str:
    """Ask which account."""
    account = await ctx.ask("Which account?", Literal["main", "savings"])
    return f"took {account}"


@tool(requires_approval=True)
async def risky() -> str:
    """Do something that somebody has to allow."""
    return "did it"


@tool(uses=("risky",), timeout=30)
async def outer(ctx: ToolContext) -> str:
    """Call the risky tool."""
    outcome = await ctx.call_tool("risky")
    return f"risky: {outcome.text}"


class Heard:
    """The events of all sessions of a runtime, and the wait for one of a type."""

    def __init__(self, runtime: Runtime) -> None:
        self.events: list[Event] = []
        self._queues: dict[type[Event], asyncio.Queue[Any]] = {}
        for kind in (QuestionAsked, ApprovalRequested):
            queue = self._queues[kind] = asyncio.Queue[Any]()
            runtime.bus.subscribe(kind, queue.put_nowait)
        runtime.bus.subscribe(Event, self.events.append)

    async def next(self, kind: type[Event]) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await self._queues[kind].get()

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def served(**config: Any) -> AsyncGenerator[tuple[Runtime, Heard]]:
    config.setdefault("tools", [pick, risky, outer])
    async with create_runtime(RuntimeConfig(drain_seconds=0.1, **config)) as runtime:
        yield runtime, Heard(runtime)


def called(runtime: Runtime, session_id: str, name: str, who: Principal) -> asyncio.Future[Any]:
    params: Json = {"session_id": session_id, "name": name, "call_id": "c1"}
    return asyncio.ensure_future(runtime.ask("tools.call", params, who))


class TestQuestions:
    async def test_the_caller_lists_and_answers(self) -> None:
        """LangChain's question in the middle of a tool, for every transport: it is listed with its
        schema, the answer goes to the call, and the record says who gave it.
        """
        async with served() as (runtime, heard):
            session_id = await new_session(runtime, HTTP_CALLER)
            call = called(runtime, session_id, "pick", HTTP_CALLER)
            await heard.next(QuestionAsked)
            (question,) = (await runtime.ask("questions.list", {}, HTTP_CALLER)).questions
            params = {"question_id": question.question_id, "value": "savings"}
            answered = await runtime.ask("questions.answer", params, HTTP_CALLER)
            result = await call

        assert (question.tool, question.text) == ("pick", "Which account?")
        assert question.schema == {"enum": ["main", "savings"], "type": "string"}
        assert (answered.call_id, answered.action) == ("c1", "answer")
        assert result.text == "took savings"
        assert heard.of(QuestionAnswered)[0].actor.name == "bot"

    async def test_a_runtime_that_closes_waits_for_no_answer(self) -> None:
        """The question is withdrawn at once, and the call ends well before the drain time."""
        async with served() as (runtime, heard):
            session_id = await new_session(runtime, HTTP_CALLER)
            call = called(runtime, session_id, "pick", HTTP_CALLER)
            await heard.next(QuestionAsked)
            await asyncio.wait_for(runtime.close(), runtime.config.drain_seconds / 2)
            result = await call

        assert (result.status, result.failure.kind) == ("failed", "cancelled")
        (closed,) = heard.of(QuestionClosed)
        assert (closed.why, closed.reason) == ("withdrawn", "the session is closing")

    async def test_another_principal_sees_and_answers_nothing(self) -> None:
        """A question is for the caller; to others it does not exist, and it stays open."""
        async with served() as (runtime, heard):
            session_id = await new_session(runtime, HTTP_CALLER)
            call = called(runtime, session_id, "pick", HTTP_CALLER)
            question = (await heard.next(QuestionAsked)).question
            listed = (await runtime.ask("questions.list", {}, OTHER)).questions
            params = {"question_id": question.question_id, "value": "main"}
            refused = await refusal(runtime, "questions.answer", params, OTHER)
            await runtime.ask("questions.answer", params, OWNER)
            result = await call

        assert listed == []
        assert refused.kind == "not_found"
        assert result.text == "took main"
        assert heard.of(QuestionAnswered)[0].actor.name == "owner"

    @pytest.mark.parametrize(
        "params",
        [
            {"value": "third"},
            {},
            {"value": "main", "reason": "x"},
            {"action": "decline", "value": "main"},
        ],
    )
    async def test_what_does_not_fit_is_refused_and_it_stays_open(self, params: Json) -> None:
        """An unclear answer counts for nothing, and says what is wrong."""
        async with served() as (runtime, heard):
            session_id = await new_session(runtime, HTTP_CALLER)
            call = called(runtime, session_id, "pick", HTTP_CALLER)
            question_id = (await heard.next(QuestionAsked)).question.question_id
            refused = await refusal(
                runtime, "questions.answer", {"question_id": question_id, **params}, HTTP_CALLER
            )
            still_open = (await runtime.ask("questions.list", {}, HTTP_CALLER)).questions
            await runtime.ask(
                "questions.answer", {"question_id": question_id, "value": "main"}, HTTP_CALLER
            )
            await call

        assert refused.kind == "invalid"
        assert [each.question_id for each in still_open] == [question_id]

    @pytest.mark.parametrize(("action", "kind"), [("decline", "denied"), ("cancel", "cancelled")])
    async def test_declined_and_left(self, action: str, kind: str) -> None:
        """The call ends with a failure that says what the person did."""
        async with served() as (runtime, heard):
            session_id = await new_session(runtime, HTTP_CALLER)
            call = called(runtime, session_id, "pick", HTTP_CALLER)
            question_id = (await heard.next(QuestionAsked)).question.question_id
            params = {"question_id": question_id, "action": action, "reason": "not today"}
            await runtime.ask("questions.answer", params, HTTP_CALLER)
            result = await call

        assert result.failure.kind == kind
        assert "not today" in result.text

    async def test_in_the_process_nobody_waits(self) -> None:
        """Without a connection, a reader or a responder the question is declined at once."""
        async with served() as (runtime, heard):
            session_id = await new_session(runtime)
            result = await called(runtime, session_id, "pick", OWNER)

        assert result.failure.kind == "unavailable"
        assert [closed.why for closed in heard.of(QuestionClosed)] == ["nobody"]

    async def test_a_responder_of_the_configuration_answers(self) -> None:
        """A host may answer in place of the people at the connections."""
        responder = CallbackResponder(lambda question: question.schema["enum"][0])
        async with served(responder=responder) as (runtime, _):
            session_id = await new_session(runtime)
            result = await called(runtime, session_id, "pick", OWNER)

        assert result.text == "took main"

    async def test_cancelling_the_call_withdraws_its_question(self) -> None:
        """Nobody is asked for a call that is over."""
        async with served() as (runtime, heard):
            session_id = await new_session(runtime, HTTP_CALLER)
            call = called(runtime, session_id, "pick", HTTP_CALLER)
            question_id = (await heard.next(QuestionAsked)).question.question_id
            await runtime.ask(
                "tools.cancel", {"session_id": session_id, "call_id": "c1"}, HTTP_CALLER
            )
            await call
            listed = (await runtime.ask("questions.list", {}, HTTP_CALLER)).questions
            params = {"question_id": question_id, "value": "main"}
            refused = await refusal(runtime, "questions.answer", params, HTTP_CALLER)

        assert listed == []
        assert refused.kind == "not_found"
        assert [closed.why for closed in heard.of(QuestionClosed)] == ["withdrawn"]

    async def test_closing_the_session_withdraws_its_questions(self) -> None:
        """A closed session leaves no question behind."""
        async with served() as (runtime, heard):
            session_id = await new_session(runtime, HTTP_CALLER)
            call = called(runtime, session_id, "pick", HTTP_CALLER)
            await heard.next(QuestionAsked)
            await runtime.ask("session.close", {"session_id": session_id}, HTTP_CALLER)
            await asyncio.gather(call, return_exceptions=True)
            listed = (await runtime.ask("questions.list", {}, HTTP_CALLER)).questions

        assert listed == []
        assert [closed.why for closed in heard.of(QuestionClosed)] == ["withdrawn"]

    async def test_a_chat_yields_the_question_and_answers_it(self) -> None:
        """The event is all that `chat.answer` needs, as with approvals."""
        adapter = model([calls("pick", {})], [says("Done.")])
        async with served(adapter=adapter) as (runtime, _):
            chat = await runtime.chat("desk")
            events: list[Any] = []
            async for event in chat.send("Go!"):
                events.append(event)
                if isinstance(event, QuestionAsked):
                    (listed,) = await chat.questions()
                    assert listed.question_id == event.question.question_id
                    await chat.answer(event, "savings")

        (invoked,) = [event for event in events if isinstance(event, ToolInvoked)]
        assert invoked.message == "took savings"
        assert isinstance(events[-1], PromptResult)

    async def test_a_chat_may_decline(self) -> None:
        """The model is told that the person does not want to answer."""
        adapter = model([calls("pick", {})], [says("Done.")])
        async with served(adapter=adapter) as (runtime, heard):
            chat = await runtime.chat("desk")
            async for event in chat.send("Go!"):
                if isinstance(event, QuestionAsked):
                    await chat.decline(event, "none of these")

        (invoked,) = heard.of(ToolInvoked)
        assert invoked.failure.kind == "denied"
        assert "none of these" in invoked.message


class TestNestedApprovals:
    """F11: a call within another one can wait for a person where people can decide meanwhile."""

    async def test_it_waits_and_goes_on_when_somebody_decides(self) -> None:
        """The inbox has the request with its parent; the handler goes on with the result."""
        async with served() as (runtime, heard):
            session_id = await new_session(runtime, HTTP_CALLER)
            call = called(runtime, session_id, "outer", HTTP_CALLER)
            request = (await heard.next(ApprovalRequested)).request
            (listed,) = (await runtime.ask("approvals.list", {}, OWNER)).approvals
            decision = {"approval_id": listed.approval_id, "decision": "approve"}
            await runtime.ask("approvals.decide", decision, OWNER)
            result = await call

        assert request.parent_call_id == "c1"
        assert listed.state == "pending"
        assert result.text == "risky: did it"

    async def test_a_denial_is_the_handlers_to_take(self) -> None:
        """The handler gets an outcome, not an exception."""
        async with served() as (runtime, heard):
            session_id = await new_session(runtime, HTTP_CALLER)
            call = called(runtime, session_id, "outer", HTTP_CALLER)
            request = (await heard.next(ApprovalRequested)).request
            decision = {
                "approval_id": request.approval_id,
                "decision": "deny",
                "reason": "too risky",
            }
            await runtime.ask("approvals.decide", decision, OWNER)
            result = await call

        assert result.text == "risky: too risky"

    async def test_in_a_prompt_it_waits_too(self) -> None:
        """A model's call whose handler calls a risky tool is decided in the midst of the turn."""
        adapter = model([calls("outer", {})], [says("Done.")])
        async with served(adapter=adapter) as (runtime, heard):
            chat = await runtime.chat("desk")
            async for event in chat.send("Go!"):
                if isinstance(event, ApprovalRequested):
                    await chat.approve(event)

        assert [event.message for event in heard.of(ToolInvoked)] == ["did it", "risky: did it"]

    async def test_a_prompt_that_does_not_wait_denies_it(self) -> None:
        """Whoever sends a prompt without waiting gets its end."""
        adapter = model([calls("outer", {})], [says("Done.")])
        async with served(adapter=adapter) as (runtime, heard):
            chat = await runtime.chat("desk")
            result = await chat.send("Go!", waits=False)

        assert result.status == "completed"
        assert heard.of(ToolInvoked)[0].failure.kind == "denied"

    async def test_in_the_process_without_anybody_it_is_denied(self) -> None:
        """As before: nobody is here to decide, and the sentence says so."""
        async with served() as (runtime, _):
            session_id = await new_session(runtime)
            result = await called(runtime, session_id, "outer", OWNER)

        assert "nobody is here to give it. A nested call cannot wait for one." in result.text

    @pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "durable"])
    async def test_over_mcp_it_waits_only_where_others_reach_the_store(
        self, is_durable: bool, tmp_path: Path
    ) -> None:
        """An MCP client cannot decide while its call runs: with a store of its own process nobody
        could, and the call must not hang.
        """
        who = replace(CALLER, transport="mcp")
        with SqliteStore(tmp_path / "crib.sqlite3") as durable:
            store = durable if is_durable else MemoryStore()
            async with served(store=store) as (runtime, heard):
                session_id = await new_session(runtime, who)
                call = called(runtime, session_id, "outer", who)
                request = (await heard.next(ApprovalRequested)).request
                if is_durable:
                    decision = {"approval_id": request.approval_id, "decision": "approve"}
                    await runtime.ask("approvals.decide", decision, OWNER)
                result = await call

        assert ("did it" in result.text) is is_durable

    async def test_cancelling_the_outer_call_withdraws_the_request(self) -> None:
        """Nobody can approve a call whose caller is gone."""
        async with served() as (runtime, heard):
            session_id = await new_session(runtime, HTTP_CALLER)
            call = called(runtime, session_id, "outer", HTTP_CALLER)
            request = (await heard.next(ApprovalRequested)).request
            await runtime.ask(
                "tools.cancel", {"session_id": session_id, "call_id": "c1"}, HTTP_CALLER
            )
            result = await call
            decision = {"approval_id": request.approval_id, "decision": "approve"}
            refused = await refusal(runtime, "approvals.decide", decision, OWNER)

        assert result.failure.kind == "cancelled"
        assert refused.kind == "conflict"

    async def test_an_approver_of_the_process_decides_as_before(self) -> None:
        """Nothing waits for the inbox where the host has an approver."""
        approver = CallbackApprover(lambda _: Approve())
        async with served(approver=approver) as (runtime, _):
            session_id = await new_session(runtime)
            result = await called(runtime, session_id, "outer", OWNER)

        assert result.text == "risky: did it"
