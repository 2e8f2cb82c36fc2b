"""Calls that become tasks, for clients that have declared the extension."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, CallToolResult

from tests.helpers.child_process import PYTHON_PATH, child_process
from tests.helpers.patience import PATIENCE
from tests.mcp_client.mounted_servers import rich
from tests.transports.mcp.connected_client import (
    APPROVER,
    CALLER,
    HANDSHAKE,
    STATELESS,
    Bench,
    Person,
    Work,
    connected,
    facts_of,
    registry_of,
    says,
    text_of,
)
from tests.transports.mcp.task_client import EXTENSION, TaskClient, TaskExtension, task_of
from toolcrib.errors import UsageError
from toolcrib.features import resource
from toolcrib.host_tools import HostToolDefinition, ToolContext
from toolcrib.mcp_client.request_terms import RequestTerms
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime, create_runtime
from toolcrib.store.sqlite import SqliteStore
from toolcrib.transports.mcp import McpOptions, McpServer, current_request

SOON = McpOptions(task_after_seconds=0.01)
ANY: dict[str, Any] = {"type": "object"}


@dataclass
class Confirmation:
    confirm: bool


async def confirm(input: dict[str, Any], context: ToolContext) -> str:
    answer = await context.ask("Really?", Confirmation)
    return "done" if answer.confirm else "left"


ASKS = HostToolDefinition("asks", "Asks.", ANY, confirm)


@asynccontextmanager
async def tasked(
    *tools: Any, options: McpOptions = SOON, **more: Any
) -> AsyncGenerator[tuple[Bench, TaskClient]]:
    """A client with the extension, of a fresh server."""
    extensions = [TaskExtension()]
    async with connected(
        STATELESS, *tools, options=options, extensions=extensions, **more
    ) as bench:
        yield bench, TaskClient(bench.client)


async def nobody(context: Any, params: Any) -> Any:
    raise AssertionError("a task's forms are not requests")


class TestCreation:
    async def test_a_call_that_takes_long_is_a_task(self) -> None:
        """The request is answered while the call goes on, and the result is in the task."""
        go = asyncio.Event()

        async def slow(input: dict[str, Any], context: ToolContext) -> dict[str, Any]:
            await go.wait()
            return {"total": 42}

        async with tasked(HostToolDefinition("slow", "Slow.", ANY, slow)) as (bench, tasks):
            created = task_of(await bench.client.call_tool("slow", {}))
            working = await tasks.get(created["taskId"])
            go.set()
            done = await tasks.until(created["taskId"], "completed")

        assert created["status"] == working["status"] == "working"
        assert created["ttlMs"] is None
        assert created["pollIntervalMs"] == 1_000
        assert done["resultType"] == "complete"
        assert done["result"]["structuredContent"] == {"total": 42}
        assert not done["result"].get("isError")

    async def test_a_call_that_ends_in_time_is_a_result(self) -> None:
        """No client pays for a second request without need."""
        options = McpOptions(task_after_seconds=30.0)
        async with tasked(options=options) as (bench, _):
            result = await bench.call("write", "at once")

        assert result.structured_content == {"written": "at once"}

    async def test_a_client_without_the_extension_gets_no_task(self) -> None:
        """The protocol forbids tasks that were not asked for: the request waits."""

        async def slow(input: dict[str, Any], context: ToolContext) -> str:
            await asyncio.sleep(0.1)
            return "whole"

        slow_tool = HostToolDefinition("slow", "Slow.", ANY, slow)
        async with connected(STATELESS, slow_tool, options=SOON) as bench:
            result = await bench.client.call_tool("slow", {})

        assert text_of(result) == "whole"

    async def test_a_failure_of_the_tool_is_a_completed_task(self) -> None:
        """Only an error of the protocol is a failed task."""

        async def slow(input: dict[str, Any], context: ToolContext) -> str:
            await asyncio.sleep(0.1)
            raise RuntimeError("out of paper")

        async with tasked(HostToolDefinition("slow", "Slow.", ANY, slow)) as (bench, tasks):
            created = task_of(await bench.client.call_tool("slow", {}))
            done = await tasks.until(created["taskId"], "completed", "failed")

        assert done["status"] == "completed"
        assert done["result"]["isError"]
        assert "out of paper" in done["result"]["content"][0]["text"]

    @pytest.mark.parametrize("asks", [False, True])
    async def test_what_a_handler_answers_for_the_client_is_in_the_task(self, asks: bool) -> None:
        """A picture is no value: what `answer` was given comes with the task, also of a call that
        was approved after its request.
        """

        async def draw(input: dict[str, Any], context: ToolContext) -> str:
            await asyncio.sleep(0.1)
            request = current_request()
            assert request is not None
            image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
            request.answer(CallToolResult.model_validate({"content": [image]}))
            return "a picture"

        tool = HostToolDefinition("draw", "Draw.", ANY, draw, requires_approval=asks)
        async with tasked(tool) as (bench, tasks):
            created = task_of(await bench.client.call_tool("draw", {}))
            for filed in await bench.inbox():
                await bench.decide(filed.approval_id, "approve")
            done = await tasks.until(created["taskId"], "completed")

        assert done["result"]["content"][0]["type"] == "image"

    async def test_a_tool_that_requires_tasks_is_for_clients_with_them(self) -> None:
        """`requires` withholds it from other clients, and a call says what they lack."""
        tool = HostToolDefinition("job", "A job.", ANY, confirm, requires=("tasks",))
        async with connected(STATELESS, tool) as bench:
            listed = {each.name for each in (await bench.client.list_tools()).tools}
            with pytest.raises(MCPError) as refused:
                await bench.client.call_tool("job", {})
        async with connected(HANDSHAKE, tool) as bench:
            with pytest.raises(MCPError) as unknown:
                await bench.client.call_tool("job", {})
        async with tasked(tool) as (bench, _):
            with_tasks = {each.name for each in (await bench.client.list_tools()).tools}

        assert "job" not in listed
        assert "job" in with_tasks
        assert refused.value.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY
        assert refused.value.error.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        assert unknown.value.error.code == INVALID_PARAMS


class TestApproval:
    async def test_an_approval_is_a_task_that_nobody_has_to_poll(self) -> None:
        """The call runs once it is decided elsewhere, though the client asks nothing."""
        async with tasked() as (bench, tasks):
            created = task_of(await bench.call("careful", "a tree"))
            before = await tasks.get(created["taskId"])
            (filed,) = await bench.inbox()
            await bench.decide(filed.approval_id, "approve")
            async with asyncio.timeout(PATIENCE):
                await bench.work.written.wait()
            done = await tasks.until(created["taskId"], "completed")

        assert before["status"] == "working"
        assert before["statusMessage"].startswith(f"Waiting for approval {filed.approval_id}")
        assert before["pollIntervalMs"] == 5_000
        assert bench.work.done == ["a tree"]
        assert done["result"]["structuredContent"] == {"written": "a tree"}

    async def test_the_same_call_again_is_the_same_task(self) -> None:
        """A client that lost the answer makes no second call, and nobody is asked twice."""
        async with tasked() as (bench, _):
            first = task_of(await bench.call("careful", "a tree"))
            second = task_of(await bench.call("careful", "a tree"))
            inbox = await bench.inbox()

        assert first["taskId"] == second["taskId"]
        assert len(inbox) == 1

    async def test_the_person_at_the_client_decides_by_the_form_of_the_task(self) -> None:
        """An approver gets the form as an input request, and its answer counts once."""
        async with tasked(who=APPROVER, elicitation_callback=nobody) as (bench, tasks):
            created = task_of(await bench.call("careful", "a tree"))
            asked = await tasks.until(created["taskId"], "input_required")
            ((key, form),) = asked["inputRequests"].items()
            answer = {"action": "accept", "content": {"decision": "approve"}}
            await tasks.update(created["taskId"], {"another": answer})
            still = await tasks.get(created["taskId"])
            acknowledged = await tasks.update(created["taskId"], {key: answer})
            done = await tasks.until(created["taskId"], "completed")
            (filed,) = await bench.inbox(is_all=True)

        assert form["method"] == "elicitation/create"
        assert "`careful`" in form["params"]["message"]
        assert still["status"] == "input_required"
        assert acknowledged.keys() <= {"resultType", "_meta"}
        assert done["result"]["structuredContent"] == {"written": "a tree"}
        assert filed.decided_by == "ada"

    async def test_a_form_that_was_declined_leaves_the_call_waiting(self) -> None:
        """The client is not asked again; somebody else decides."""
        async with tasked(who=APPROVER, elicitation_callback=nobody) as (bench, tasks):
            created = task_of(await bench.call("careful"))
            asked = await tasks.until(created["taskId"], "input_required")
            (key,) = asked["inputRequests"]
            await tasks.update(created["taskId"], {key: {"action": "decline"}})
            left = await tasks.get(created["taskId"])
            (filed,) = await bench.inbox()
            await bench.decide(filed.approval_id, "deny", reason="not today")
            done = await tasks.until(created["taskId"], "completed")

        assert left["status"] == "working"
        assert "inputRequests" not in left
        assert done["result"]["isError"]
        assert "not today" in done["result"]["content"][0]["text"]
        assert bench.work.done == []

    async def test_a_caller_decides_nothing_by_an_update(self) -> None:
        """R42: a client whose answers do not count cannot guess the key of a form."""
        async with tasked(who=CALLER, elicitation_callback=nobody) as (bench, tasks):
            created = task_of(await bench.call("careful"))
            (filed,) = await bench.inbox()
            key = f"{filed.approval_id}:{filed.digest}"
            answer = {"action": "accept", "content": {"decision": "approve"}}
            await tasks.update(created["taskId"], {key: answer})
            after = await tasks.get(created["taskId"])
            (still,) = await bench.inbox()

        assert after["status"] == "working"
        assert still.state == "pending"
        assert bench.work.done == []


class TestQuestions:
    async def test_a_question_is_input_of_the_task(self) -> None:
        """The handler goes on with the answer of the update."""
        async with tasked(ASKS, elicitation_callback=nobody) as (bench, tasks):
            created = task_of(await bench.client.call_tool("asks", {}))
            asked = await tasks.until(created["taskId"], "input_required")
            ((key, form),) = asked["inputRequests"].items()
            unfit = {"action": "accept", "content": {"confirm": "perhaps"}}
            with pytest.raises(MCPError):
                await tasks.update(created["taskId"], {key: unfit})
            again = await tasks.get(created["taskId"])
            fit = {"action": "accept", "content": {"confirm": True}}
            await tasks.update(created["taskId"], {key: fit})
            done = await tasks.until(created["taskId"], "completed")
            late = await tasks.update(created["taskId"], {key: fit})

        assert form["params"]["message"] == "Really?"
        assert list(again["inputRequests"]) == [key]
        assert done["result"]["content"][0]["text"] == "done"
        assert late["resultType"] == "complete"

    async def test_who_declines_a_question_is_heard(self) -> None:
        """That is an answer of the person: the call goes on without it."""
        async with tasked(ASKS, elicitation_callback=nobody) as (bench, tasks):
            created = task_of(await bench.client.call_tool("asks", {}))
            asked = await tasks.until(created["taskId"], "input_required")
            (key,) = asked["inputRequests"]
            await tasks.update(created["taskId"], {key: {"action": "decline"}})
            done = await tasks.until(created["taskId"], "completed")

        assert done["result"]["_meta"]["toolcrib/call"]["failure"]["kind"] == "denied"

    async def test_a_client_without_forms_is_not_asked(self) -> None:
        """Nothing hangs: the call fails at once, as it does without tasks."""
        async with tasked(ASKS, options=McpOptions(task_after_seconds=30.0)) as (bench, _):
            result = await bench.client.call_tool("asks", {})

        assert facts_of(result)["failure"]["kind"] == "unavailable"


class TestCancellation:
    async def test_a_task_that_runs_is_cancelled(self) -> None:
        """The handler is stopped, the task says so, and a second time is no error."""
        async with tasked() as (bench, tasks):
            created = task_of(await bench.call("hold"))
            acknowledged = await tasks.cancel(created["taskId"])
            done = await tasks.until(created["taskId"], "cancelled", "completed")
            again = await tasks.cancel(created["taskId"])
            await bench.work.stopped.wait()

        assert acknowledged.keys() <= {"resultType", "_meta"}
        assert done["status"] == "cancelled"
        assert "result" not in done
        assert again["resultType"] == "complete"

    async def test_a_task_that_waits_is_withdrawn(self) -> None:
        """Nobody can approve it any more."""
        async with tasked() as (bench, tasks):
            created = task_of(await bench.call("careful"))
            await tasks.cancel(created["taskId"])
            done = await tasks.until(created["taskId"], "cancelled")
            inbox = await bench.inbox()

        assert done["status"] == "cancelled"
        assert inbox == []
        assert bench.work.done == []


@asynccontextmanager
async def served(
    work: Work, path: Path, *, who: Principal = CALLER, options: McpOptions = SOON
) -> AsyncGenerator[tuple[Runtime, Client, TaskClient]]:
    """A server on a store, as a process has it."""
    with SqliteStore(path) as store:
        config = RuntimeConfig(host_tool_registry=registry_of(work, ASKS), store=store)
        async with create_runtime(config) as runtime:
            server = McpServer(runtime, options, who=who)
            extensions = [TaskExtension()]
            async with Client(server.sdk, mode=STATELESS, extensions=extensions) as client:
                yield runtime, client, TaskClient(client)


class TestRestart:
    async def test_a_task_outlives_its_process(self, tmp_path: Path) -> None:
        """R45: an approval that takes days is still the same task, and its call runs once."""
        work, path = Work(), tmp_path / "ledgers.sqlite3"
        async with served(work, path) as (_, client, _):
            created = task_of(await client.call_tool("careful", {"text": "a tree"}))
        async with served(work, path) as (runtime, _, tasks):
            waiting = await tasks.get(created["taskId"])
            approvals = (await runtime.ask("approvals.list", {})).approvals
            await runtime.decide(approvals[0].approval_id, "approve")
            done = await tasks.until(created["taskId"], "completed")
        async with served(work, path) as (_, _, tasks):
            kept = await tasks.get(created["taskId"])

        assert waiting["status"] == "working"
        assert waiting["createdAt"] == created["createdAt"]
        assert done["result"]["structuredContent"] == {"written": "a tree"}
        assert kept["result"] == done["result"]
        assert work.done == ["a tree"]

    @pytest.mark.wire
    async def test_a_call_whose_process_died_is_not_made_again(self, tmp_path: Path) -> None:
        """R46: nobody knows whether it took effect, so a person is asked."""
        work, path = Work(), tmp_path / "ledgers.sqlite3"
        command = [sys.executable, "-m", "tests.transports.mcp.held_task", str(path)]
        env = {**os.environ, "PYTHONPATH": PYTHON_PATH}
        with child_process(command, env=env) as child:
            task_id = child.stdout.next_line("task_").strip()
        async with served(work, path) as (other, _, tasks):
            task = await tasks.until(task_id, "working")
            while not (inbox := (await other.ask("approvals.list", {})).approvals):
                task = await tasks.get(task_id)

        assert task["status"] == "working"
        assert [each.tool for each in inbox] == ["hold"]

    async def test_a_task_is_kept_for_its_time(self, tmp_path: Path) -> None:
        """After its time to live it is answered as one that is not there."""
        work, path = Work(), tmp_path / "ledgers.sqlite3"
        short = McpOptions(task_after_seconds=0.01, task_ttl_seconds=0.5)
        async with served(work, path, options=short) as (_, client, tasks):
            created = task_of(await client.call_tool("careful", {"text": "a tree"}))
            with pytest.raises(MCPError) as expired:
                await tasks.until(created["taskId"], "completed")

        assert created["ttlMs"] == 500
        assert expired.value.error.message == "Task has expired"


class TestPrivacy:
    @pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
    async def test_a_task_is_its_principals_own(self, tmp_path: Path, method: str) -> None:
        """R51: an admin who has the id gets the answer for a task that is not there."""
        work, path = Work(), tmp_path / "ledgers.sqlite3"
        eve = Principal("eve", frozenset({"admin"}), transport="mcp")
        async with served(work, path) as (_, client, _):
            created = task_of(await client.call_tool("careful", {"text": "a tree"}))
        responses: dict[str, Any] = {"input_responses": {}} if method == "tasks/update" else {}
        async with served(work, path, who=eve) as (runtime, _, tasks):
            with pytest.raises(MCPError) as refused:
                await tasks.ask(method, created["taskId"], **responses)
            inbox = (await runtime.ask("approvals.list", {})).approvals

        assert (refused.value.error.code, refused.value.error.message) == (
            INVALID_PARAMS,
            "Task not found",
        )
        assert [each.state for each in inbox] == ["pending"]

    @pytest.mark.parametrize("text", ["", "task_", "task_***", "task_YQ", "task_" + "YQ" * 1_000])
    async def test_an_id_that_is_none_is_not_found(self, text: str) -> None:
        """What a client makes up is answered as a task that is not there."""
        async with tasked() as (_, tasks):
            with pytest.raises(MCPError) as refused:
                await tasks.get(text)

        assert refused.value.error.code == INVALID_PARAMS

    @pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
    async def test_the_methods_are_for_clients_with_the_extension(self, method: str) -> None:
        """A client without it learns what it lacks; the handshake era has no such method."""
        async with connected(STATELESS) as bench:
            with pytest.raises(MCPError) as lacking:
                await TaskClient(bench.client).ask(method, "task_x")
        async with connected(HANDSHAKE) as bench:
            with pytest.raises(MCPError) as unknown:
                await TaskClient(bench.client).ask(method, "task_x")

        assert lacking.value.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY
        assert unknown.value.error.message == "Method not found"


def test_limits_of_tasks_are_checked() -> None:
    """A fault in the options is said where they are made."""
    with pytest.raises(UsageError, match="task_after_seconds"):
        McpOptions(task_after_seconds=-1.0)
    with pytest.raises(UsageError, match="task_ttl_seconds"):
        McpOptions(task_ttl_seconds=-1.0)


async def test_a_person_at_a_client_of_the_handshake_is_asked_as_before() -> None:
    """That era has no extensions: the form is a request."""
    person = Person(says("approve"))
    async with connected(HANDSHAKE, who=APPROVER, elicitation_callback=person) as bench:
        result = await bench.call("careful", "a tree")

    assert not result.is_error


@pytest.mark.wire
@pytest.mark.parametrize("upstream", ["older", "newer"])
async def test_what_a_mounted_server_asks_is_input_of_the_task(upstream: Any) -> None:
    """Its request to the client's model waits in the task, and the response goes back to it."""
    config = RuntimeConfig(mcp_servers=[rich(upstream, requests=RequestTerms(sampling="allow"))])
    sample = {
        "role": "assistant",
        "content": {"type": "text", "text": "42"},
        "model": "small-model",
    }
    async with (
        create_runtime(config) as runtime,
        Client(
            McpServer(runtime, SOON).sdk,
            mode=STATELESS,
            extensions=[TaskExtension()],
            sampling_callback=nobody,
        ) as client,
    ):
        tasks = TaskClient(client)
        created = task_of(await client.call_tool("rich_think", {}))
        asked = await tasks.until(created["taskId"], "input_required")
        ((key, request),) = asked["inputRequests"].items()
        await tasks.update(created["taskId"], {key: {"nonsense": True}})
        still = await tasks.get(created["taskId"])
        await tasks.update(created["taskId"], {key: sample})
        done = await tasks.until(created["taskId"], "completed")

    assert request["method"] == "sampling/createMessage"
    assert list(still["inputRequests"]) == [key]
    assert "42" in done["result"]["content"][0]["text"]


async def test_a_read_is_never_a_task() -> None:
    """The protocol knows tasks of tools alone."""

    @resource("notes://slow")
    async def slow() -> str:
        """Slow notes."""
        await asyncio.sleep(0.2)
        return "at last"

    async with (
        create_runtime(RuntimeConfig(features=[slow])) as runtime,
        Client(
            McpServer(runtime, SOON).sdk, mode=STATELESS, extensions=[TaskExtension()]
        ) as client,
    ):
        read = await client.read_resource("notes://slow")

    assert read.contents[0].model_dump()["text"] == "at last"
