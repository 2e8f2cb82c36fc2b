"""A call that needs a person, over MCP."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequiredResult

from tests.transports.mcp.connected_client import (
    APPROVER,
    CALLER,
    ERAS,
    HANDSHAKE,
    STATELESS,
    Person,
    Work,
    connected,
    facts_of,
    registry_of,
    says,
    text_of,
)
from toolcrib.errors import UsageError
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import create_runtime
from toolcrib.store.sqlite import SqliteStore
from toolcrib.transports.mcp import McpOptions, McpServer
from toolcrib.transports.mcp.options import ElicitedApproval

each_era = pytest.mark.parametrize("era", ERAS)


@each_era
class TestAsking:
    async def test_who_approves_at_the_client_has_the_call_run(self, era: str) -> None:
        """R42: the form is a decision where the client's principal may approve, and the call
        goes on in the same request.
        """
        person = Person(says("approve"))
        async with connected(era, who=APPROVER, elicitation_callback=person) as bench:
            result = await bench.call("careful", "a tree")
            (filed,) = await bench.inbox(is_all=True)

        assert not result.is_error
        assert bench.work.done == ["a tree"]
        assert filed.decided_by == "ada"

    async def test_the_person_sees_what_will_run(self, era: str) -> None:
        """R42: the form names the tool and all of its arguments, and hides no character."""
        person = Person(says("deny"))
        async with connected(era, who=APPROVER, elicitation_callback=person) as bench:
            await bench.call("careful", "to\u202eeert")

        (form,) = person.asked
        assert "`careful`" in form.message
        assert '"text": "to\\u202eeert"' in form.message
        assert form.requested_schema["properties"]["decision"]["enum"] == ["approve", "deny"]

    async def test_who_denies_is_obeyed_and_quoted(self, era: str) -> None:
        """A denial ends the call, and the model hears why."""
        person = Person(says("deny", reason="not on a Monday"))
        async with connected(era, who=APPROVER, elicitation_callback=person) as bench:
            result = await bench.call("careful")

        assert bench.work.done == []
        assert facts_of(result)["failure"]["kind"] == "denied"
        assert "not on a Monday" in text_of(result)

    async def test_who_declines_with_a_denial_is_obeyed(self, era: str) -> None:
        """A client may send what the person chose with the button that they pressed."""
        person = Person(ElicitResult(action="decline", content={"decision": "deny"}))
        async with connected(era, who=APPROVER, elicitation_callback=person) as bench:
            result = await bench.call("careful")

        assert bench.work.done == []
        assert facts_of(result)["failure"]["kind"] == "denied"

    async def test_the_form_says_how_to_deny(self, era: str) -> None:
        """Whoever sees the form learns that a button which closes it denies nothing."""
        person = Person(says("deny"))
        async with connected(era, who=APPROVER, elicitation_callback=person) as bench:
            await bench.call("careful")

        (form,) = person.asked
        field = form.requested_schema["properties"]["decision"]
        assert "decline or close this form decides nothing" in field["description"]

    @pytest.mark.parametrize(
        "answer",
        [
            ElicitResult(action="decline"),
            ElicitResult(action="cancel"),
            ElicitResult(action="decline", content={"decision": "approve"}),
            ElicitResult(action="accept"),
            ElicitResult(action="accept", content={"decision": "perhaps"}),
            ElicitResult(action="cancel", content={"decision": "approve"}),
        ],
    )
    async def test_what_is_no_clear_answer_decides_nothing(
        self, era: str, answer: ElicitResult
    ) -> None:
        """R42: nothing fails open; the call waits for somebody who answers. A client that declines
        forms by itself denies nothing for good.
        """
        person = Person(answer)
        async with connected(era, who=APPROVER, elicitation_callback=person) as bench:
            result = await bench.call("careful")
            (filed,) = await bench.inbox()

        assert bench.work.done == []
        assert result.is_error
        assert facts_of(result)["status"] == "waiting"
        assert filed.state == "pending"

    async def test_a_decision_that_came_first_counts(self, era: str) -> None:
        """A decision is final: the form of somebody slower changes nothing."""

        async def slow(context: Any, params: Any) -> ElicitResult:
            (filed,) = await bench.inbox()
            await bench.decide(filed.approval_id, "deny", reason="no, said the other")
            return says("approve")

        async with connected(era, who=APPROVER, elicitation_callback=slow) as bench:
            result = await bench.call("careful")

        assert bench.work.done == []
        assert "no, said the other" in text_of(result)

    async def test_arguments_that_nobody_could_read_are_not_asked_about(self, era: str) -> None:
        """What does not fit a form waits for somebody who can see it whole."""
        person = Person()
        async with connected(era, who=APPROVER, elicitation_callback=person) as bench:
            result = await bench.call("careful", "x" * 30_000)

        assert person.asked == []
        assert facts_of(result)["status"] == "waiting"


@each_era
class TestWhoMayDecide:
    async def test_a_caller_without_the_role_is_not_asked(self, era: str) -> None:
        """R42: the caller of a tool cannot approve it unless its role says so; a client could
        answer the form by itself.
        """
        person = Person(says("approve"))
        async with connected(era, who=CALLER, elicitation_callback=person) as bench:
            result = await bench.call("careful")

        assert person.asked == []
        assert bench.work.done == []
        assert facts_of(result)["status"] == "waiting"

    async def test_an_approver_is_not_asked_about_its_own_calls(self, era: str) -> None:
        """Security 10: the calls of a client are its principal's own, so its form decides only
        where the principal may approve them.
        """
        person = Person(says("approve"))
        who = replace(APPROVER, may_approve_own=False)
        async with connected(era, who=who, elicitation_callback=person) as bench:
            result = await bench.call("careful")

        assert (person.asked, bench.work.done) == ([], [])
        assert facts_of(result)["status"] == "waiting"

    async def test_the_host_may_trust_every_client_to_ask_a_person(self, era: str) -> None:
        """With `always`, whoever sits at the client decides, whatever the principal may do."""
        person = Person(says("approve"))
        options = McpOptions(approve_by_elicitation="always")
        async with connected(
            era, who=CALLER, options=options, elicitation_callback=person
        ) as bench:
            await bench.call("careful", "a tree")

        assert bench.work.done == ["a tree"]

    async def test_the_host_may_have_nobody_decide_there(self, era: str) -> None:
        """With `never`, not even an approver decides by form."""
        options = McpOptions(approve_by_elicitation="never")
        person = Person()
        async with connected(
            era, who=APPROVER, options=options, elicitation_callback=person
        ) as bench:
            result = await bench.call("careful")

        assert facts_of(result)["status"] == "waiting"

    async def test_an_unknown_mode_is_refused(self, era: str) -> None:
        """A typing mistake must not open the gate."""
        with pytest.raises(UsageError, match="approve_by_elicitation"):
            McpOptions(approve_by_elicitation="alwyas")  # pyright: ignore[reportArgumentType]


@each_era
class TestWaiting:
    async def test_a_client_that_cannot_ask_is_told_what_to_do(self, era: str) -> None:
        """R42: without a form, the result names the approval and says to call again."""
        async with connected(era, who=APPROVER) as bench:
            result = await bench.call("careful")
            (filed,) = await bench.inbox()

        assert result.is_error
        assert text_of(result).startswith(f"Waiting for approval {filed.approval_id}: ")
        assert "same arguments" in text_of(result)
        assert facts_of(result)["approval_id"] == filed.approval_id

    async def test_the_same_call_again_picks_it_up_once_decided(self, era: str) -> None:
        """R42: the retry runs the call that was approved, once, under its own id."""
        async with connected(era) as bench:
            waiting = facts_of(await bench.call("careful", "a tree"))
            still = facts_of(await bench.call("careful", "a tree"))
            assert await bench.inbox() == [await _approval(bench, waiting)]
            await bench.decide(waiting["approval_id"], "approve")
            done = await bench.call("careful", "a tree")
            again = facts_of(await bench.call("careful", "a tree"))

        assert still == waiting
        assert (facts_of(done)["call_id"], done.is_error) == (waiting["call_id"], False)
        assert bench.work.done == ["a tree"]
        assert again["status"] == "waiting"
        assert again["call_id"] != waiting["call_id"]

    async def test_other_arguments_are_another_call(self, era: str) -> None:
        """R42: an approval is of what was seen; nothing else runs on it."""
        async with connected(era) as bench:
            waiting = facts_of(await bench.call("careful", "a tree"))
            await bench.decide(waiting["approval_id"], "approve")
            other = facts_of(await bench.call("careful", "the forest"))

        assert other["status"] == "waiting"
        assert bench.work.done == []

    async def test_a_denied_call_tells_the_retry(self, era: str) -> None:
        """The retry hears of the denial, once; after that it is a new call."""
        async with connected(era) as bench:
            waiting = facts_of(await bench.call("careful"))
            await bench.decide(waiting["approval_id"], "deny", reason="no")
            denied = facts_of(await bench.call("careful"))

        assert denied["failure"]["kind"] == "denied"
        assert bench.work.done == []

    async def test_a_withdrawn_call_is_not_picked_up(self, era: str) -> None:
        """Somebody cancelled what waited: the same call again is a new one."""
        async with connected(era) as bench:
            waiting = facts_of(await bench.call("careful"))
            (filed,) = await bench.inbox()
            named = {"session_id": filed.session_id, "call_id": filed.call_id}
            await bench.runtime.ask("tools.cancel", named)
            again = facts_of(await bench.call("careful"))

        assert again["status"] == "waiting"
        assert again["call_id"] != waiting["call_id"]

    async def test_a_client_may_name_the_call_that_waits(self, era: str) -> None:
        """The id in `_meta` finds the call as well."""
        async with connected(era) as bench:
            waiting = facts_of(await bench.call("careful", "a tree"))
            await bench.decide(waiting["approval_id"], "approve")
            named: Any = {"toolcrib/call_id": waiting["call_id"]}
            done = await bench.client.call_tool("careful", {"text": "a tree"}, meta=named)

        assert not done.is_error
        assert bench.work.done == ["a tree"]


class TestStateless:
    async def test_the_question_is_an_answer_that_asks_for_input(self) -> None:
        """R42: without a way to ask back, the client gets the form and calls again with it."""
        person = Person()
        async with connected(STATELESS, who=APPROVER, elicitation_callback=person) as bench:
            first = await bench.client.session.call_tool(
                "careful", {"text": "a tree"}, allow_input_required=True
            )
            assert isinstance(first, InputRequiredResult)
            done = await bench.client.session.call_tool(
                "careful",
                {"text": "a tree"},
                input_responses={"approval": says("approve")},
                request_state=first.request_state,
            )

        assert list(first.input_requests or ()) == ["approval"]
        assert not done.is_error
        assert bench.work.done == ["a tree"]

    @pytest.mark.parametrize("text", ["the forest", "a tree"])
    async def test_state_is_sealed_and_bound_to_the_call(self, text: str) -> None:
        """The client carries the state and can neither write one nor use it for another call."""
        async with connected(STATELESS, who=APPROVER, elicitation_callback=Person()) as bench:
            first = await bench.client.session.call_tool(
                "careful", {"text": "a tree"}, allow_input_required=True
            )
            assert isinstance(first, InputRequiredResult)
            state = first.request_state or ""
            with pytest.raises(MCPError, match="requestState"):
                await bench.client.session.call_tool(
                    "careful",
                    {"text": text},
                    input_responses={"approval": says("approve")},
                    request_state=state if text == "the forest" else state[:-2] + "AA",
                )

        assert bench.work.done == []

    async def test_an_answer_without_its_question_decides_nothing(self) -> None:
        """Who was shown nothing has agreed to nothing."""
        async with connected(STATELESS, who=APPROVER) as bench:
            result = await bench.client.session.call_tool(
                "careful", {"text": "a tree"}, input_responses={"approval": says("approve")}
            )

        assert bench.work.done == []
        assert facts_of(result)["status"] == "waiting"

    async def test_what_waits_is_found_again_after_a_restart(self, sqlite_path: Path) -> None:
        """R42: approvals may take days; the retry finds the call in the ledger."""
        work, done = Work(), ""
        waiting: dict[str, Any] = {}
        for is_first in (True, False):
            config = RuntimeConfig(
                host_tool_registry=registry_of(work), store=SqliteStore(sqlite_path)
            )
            async with (
                create_runtime(config) as runtime,
                Client(McpServer(runtime, who=CALLER).sdk, mode=STATELESS) as client,
            ):
                result = await client.call_tool("careful", {"text": "a tree"})
                if is_first:
                    waiting = facts_of(result)
                    decision = {"approval_id": waiting["approval_id"], "decision": "approve"}
                    await runtime.ask("approvals.decide", decision)
                else:
                    done = facts_of(result)["call_id"]
            assert config.store is not None
            config.store.close()

        assert work.done == ["a tree"]
        assert done == waiting["call_id"]


class TestComingBack:
    async def test_a_new_connection_finds_what_waited_in_the_one_before(self) -> None:
        """R42: the client of yesterday is gone; the same call of today is the one approved."""
        async with connected(STATELESS) as bench:
            async with Client(bench.server.sdk, mode=HANDSHAKE) as first:
                waiting = facts_of(await first.call_tool("careful", {"text": "a tree"}))
            async with Client(bench.server.sdk, mode=HANDSHAKE) as second:
                pending = [
                    facts_of(await second.call_tool("careful", {"text": "a tree"}))
                    for _ in range(3)
                ]
                requests = await bench.inbox(is_all=True)
                await bench.decide(waiting["approval_id"], "approve")
                done = facts_of(await second.call_tool("careful", {"text": "a tree"}))
            open_sessions = [
                each
                for each in (await bench.runtime.ask("session.list")).sessions
                if each.state == "open"
            ]

        assert pending == [waiting] * 3
        assert len([each for each in requests if each.state == "pending"]) == 1
        assert (done["call_id"], done["status"]) == (waiting["call_id"], "completed")
        assert bench.work.done == ["a tree"]
        assert open_sessions == []

    async def test_a_client_that_left_without_a_word_finds_it_too(self) -> None:
        """R42: many clients end without ending their session; the next one need not wait for
        it to be given up, and what is left of the session goes on.
        """
        async with connected(HANDSHAKE) as bench:
            waiting = facts_of(await bench.call("careful"))
            async with Client(bench.server.sdk, mode=HANDSHAKE) as second:
                again = facts_of(await second.call_tool("careful", {"text": "hello"}))
                await bench.decide(waiting["approval_id"], "approve")
                done = facts_of(await second.call_tool("careful", {"text": "hello"}))
            written = await bench.call("write")
            requests = await bench.inbox(is_all=True)

        assert again == waiting
        assert (done["call_id"], done["status"]) == (waiting["call_id"], "completed")
        assert not written.is_error
        assert {each.state for each in requests} == {"used"}
        assert bench.work.done == ["hello", "hello"]

    async def test_a_form_that_is_open_elsewhere_is_left_alone(self) -> None:
        """While one client asks its person, the same call of another one waits by itself."""
        is_asked, answer = asyncio.Event(), asyncio.Event()

        async def slow(context: Any, params: Any) -> ElicitResult:
            is_asked.set()
            await answer.wait()
            return says("approve")

        async with connected(HANDSHAKE, who=APPROVER, elicitation_callback=slow) as bench:
            first = asyncio.create_task(bench.call("careful"))
            await is_asked.wait()
            async with Client(bench.server.sdk, mode=HANDSHAKE) as second:
                other = facts_of(await second.call_tool("careful", {"text": "hello"}))
            answer.set()
            done = facts_of(await first)

        assert (other["status"], done["status"]) == ("waiting", "completed")
        assert other["call_id"] != done["call_id"]
        assert bench.work.done == ["hello"]

    async def test_what_waits_for_somebody_else_stays_theirs(self) -> None:
        """An approval of one principal's call runs nothing for another one."""
        async with connected(STATELESS) as bench:
            async with Client(bench.server.sdk, mode=HANDSHAKE) as first:
                waiting = facts_of(await first.call_tool("careful", {"text": "a tree"}))
            await bench.decide(waiting["approval_id"], "approve")
            eve = Principal("eve", frozenset({"caller"}), transport="mcp")
            other = McpServer(bench.runtime, who=eve)
            async with Client(other.sdk, mode=HANDSHAKE) as second:
                result = facts_of(await second.call_tool("careful", {"text": "a tree"}))

        assert result["status"] == "waiting"
        assert result["call_id"] != waiting["call_id"]
        assert bench.work.done == []


class TestForms:
    @pytest.mark.parametrize("mode", ["role", "always"])
    async def test_a_client_that_breaks_off_leaves_the_call_waiting(
        self, mode: ElicitedApproval
    ) -> None:
        """R42: an error in the place of an answer decides nothing."""

        async def broken(context: Any, params: Any) -> ElicitResult:
            raise MCPError(code=-32603, message="no screen")

        options = McpOptions(approve_by_elicitation=mode)
        async with connected(
            HANDSHAKE, who=APPROVER, options=options, elicitation_callback=broken
        ) as bench:
            result = await bench.call("careful")

        assert bench.work.done == []
        assert facts_of(result)["status"] == "waiting"


async def _approval(bench: Any, waiting: dict[str, Any]) -> Any:
    return await bench.runtime.ask("approvals.get", {"approval_id": waiting["approval_id"]})
