"""HostTool: a definition bound to a session, called by its input, answering with a ToolResult."""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from toolcrib import EventBus, Executor, Session, ToolContext, ToolInvoked, ToolResult
from toolcrib.calls.execute import STOP_GRACE_SECONDS
from toolcrib.errors import InvalidTool
from toolcrib.host_tools.definition import HostToolDefinition
from toolcrib.host_tools.host_tool import HostTool
from toolcrib.testing import Recorder, run_in_virtual_time

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "additionalProperties": False,
}


Handler = Callable[[dict[str, Any], ToolContext], Any]


def define(handler: Handler, **options: Any) -> HostToolDefinition:
    return HostToolDefinition("search", "Search the shop", SCHEMA, handler, **options)


def bind(handler: Handler, **options: Any) -> HostTool:
    return HostTool(define(handler, **options), ToolContext(session_id="s", cwd="/shop"))


def giving(value: Any) -> HostTool:
    """A tool whose handler returns `value`."""

    async def handler(input: dict[str, Any], context: ToolContext) -> Any:
        return value

    return bind(handler)


def raising(error: BaseException) -> HostTool:
    """A tool whose handler raises `error`."""

    async def handler(input: dict[str, Any], context: ToolContext) -> Any:
        raise error

    return bind(handler)


class TestFace:
    def test_it_shows_what_was_defined(self) -> None:
        """R16: name, description, parameters (under two names) and whether it needs a yes."""
        tool = bind(lambda input, context: None)
        careful = bind(lambda input, context: None, requires_approval=True)

        assert (tool.name, tool.description) == ("search", "Search the shop")
        assert tool.parameters == tool.input_schema == SCHEMA
        assert (tool.requires_approval, careful.requires_approval) == (False, True)


class TestExecute:
    async def test_the_handler_is_called_once_with_input_and_context(self) -> None:
        """R17: `execute` gives a ToolResult of what the handler returned."""
        calls: list[tuple[Any, ToolContext]] = []

        async def handler(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
            calls.append((input, context))
            return ToolResult(output="found", message="One hit.", metadata={"hits": 1})

        bus = EventBus()
        recorder = Recorder(bus)
        context = ToolContext(
            session_id="s",
            cwd="/shop",
            environment={"K": "v"},
            metadata={"user": "ada"},
            deps="shelf",
            bus=bus,
        )
        result = await HostTool(define(handler), context).execute({"query": "nuts"})

        assert result == ToolResult(value="found", message="One hit.", metadata={"hits": 1})
        ((input, given),) = calls
        assert input == {"query": "nuts"}
        assert (given.session_id, given.cwd, given.deps) == ("s", "/shop", "shelf")
        assert (given.environment, given.metadata) == ({"K": "v"}, {"user": "ada"})
        assert [event.name for event in recorder.of(ToolInvoked)] == ["search"]

    async def test_a_plain_function_works_too(self) -> None:
        """R17: `def` handlers run in a thread of their own and give the same."""
        threads: list[threading.Thread] = []

        def handler(input: dict[str, Any], context: ToolContext) -> str:
            threads.append(threading.current_thread())
            return input["query"]

        result = await bind(handler).execute({"query": "nuts"})

        assert (result.success, result.value) == (True, "nuts")
        assert threads != [threading.main_thread()]

    async def test_calls_of_a_session_go_through_its_executor(self) -> None:
        """R17: bound to a session's executor, a call is in that session's ledger."""
        definition = define(lambda input, context: context.session_id)
        session = Session("mine")
        context = ToolContext(session_id="mine", cwd="/")
        tool = HostTool(definition, context, Executor(session, [definition]))

        assert (await tool.execute({})).value == "mine"
        assert (await tool.execute({})).value == "mine"
        assert [entry.what for entry in session.transcript()] == ["completed", "completed"]

    @pytest.mark.parametrize("input", [{"query": 1}, {"other": ""}, ["nuts"]])
    async def test_input_that_does_not_fit_never_reaches_the_handler(self, input: Any) -> None:
        """R17: the failure is a result that says where the fault is."""
        called: list[Any] = []

        result = await bind(lambda input, context: called.append(input)).execute(input)

        assert (result.success, result.value, called) == (False, None, [])
        assert result.metadata == {"failure": "invalid_arguments"}
        assert "`search` are not valid" in result.message

    async def test_input_that_is_not_json_is_a_failure_too(self) -> None:
        """R17: never an exception."""
        result = await giving("x").execute({"query": object()})

        assert (result.success, result.metadata) == (False, {"failure": "invalid_arguments"})
        assert "not JSON" in result.message

    async def test_a_call_that_needs_a_yes_waits(self) -> None:
        """R16, R17: the result names the request; nothing ran."""
        called: list[Any] = []
        definition = define(lambda input, context: called.append(input), requires_approval=True)
        session = Session("s")
        context = ToolContext(session_id="s", cwd="/")
        result = await HostTool(definition, context, Executor(session, [definition])).execute({})

        (request,) = session.approvals.pending()
        assert (result.success, called) == (False, [])
        assert result.metadata == {"approval_id": request.approval_id}


class TestTimeLimit:
    def test_a_slow_handler_is_stopped(self) -> None:
        """R18: a failure after the limit, with the seconds in the message; the handler is
        cancelled.
        """
        cancelled: list[bool] = []

        async def slow(input: dict[str, Any], context: ToolContext) -> None:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.append(True)
                raise

        async def scenario() -> float:
            began = asyncio.get_running_loop().time()
            result = await bind(slow, timeout=2.5).execute({})
            assert result.message == "`search` did not finish within 2.5 seconds."
            assert (result.success, result.metadata) == (False, {"failure": "timeout"})
            return asyncio.get_running_loop().time() - began

        assert run_in_virtual_time(scenario()) == pytest.approx(2.5, abs=0.1)
        assert cancelled == [True]

    def test_a_handler_that_ignores_its_cancellation_is_given_up(self) -> None:
        """R18: after a grace it is reported as still running, and nobody waits for it."""
        leave = asyncio.Event()

        async def stubborn(input: dict[str, Any], context: ToolContext) -> None:
            while not leave.is_set():
                try:
                    await leave.wait()
                except asyncio.CancelledError:
                    continue

        async def scenario() -> float:
            began = asyncio.get_running_loop().time()
            result = await bind(stubborn, timeout=2).execute({})
            took = asyncio.get_running_loop().time() - began
            leave.set()
            assert not result.success
            assert result.message == (
                "`search` did not finish within 2 seconds. "
                "It could not be stopped and is still running."
            )
            return took

        took = run_in_virtual_time(scenario())
        assert took == pytest.approx(2 + STOP_GRACE_SECONDS, abs=0.1)

    def test_a_blocking_function_does_not_stall_the_loop(self) -> None:
        """R18: the loop goes on; the thread, which cannot be stopped, is reported."""
        leave = threading.Event()

        def blocking(input: dict[str, Any], context: ToolContext) -> None:
            leave.wait(PATIENCE)

        async def scenario() -> ToolResult[Any]:
            calling = asyncio.create_task(bind(blocking, timeout=5).execute({}))
            await asyncio.sleep(1)
            assert not calling.done()
            return await calling

        try:
            result = run_in_virtual_time(scenario())
        finally:
            leave.set()

        assert result.metadata == {"failure": "timeout"}
        assert "still running" in result.message

    def test_a_handlers_own_timeout_error_is_its_own(self) -> None:
        """R18: it is the handler's failure, not our limit."""

        async def impatient(input: dict[str, Any], context: ToolContext) -> None:
            raise TimeoutError("the shop did not answer")

        result = run_in_virtual_time(bind(impatient, timeout=5).execute({}))

        assert result.message == "TimeoutError: the shop did not answer"
        assert result.metadata == {"failure": "tool_error"}

    def test_zero_is_no_limit_anybody_could_mean(self) -> None:
        """R18: refused, rather than read as "no limit"."""
        with pytest.raises(InvalidTool, match="for no limit pass None"):
            bind(lambda input, context: None, timeout=0)


class TestExceptions:
    @pytest.mark.parametrize(
        ("error", "message"),
        [(ValueError("no such shop"), "ValueError: no such shop"), (KeyError(), "KeyError")],
    )
    async def test_an_exception_is_a_failure(
        self, error: Exception, message: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """R19: with its type and a message; the traceback is in the log alone."""
        with caplog.at_level(logging.INFO):
            result = await raising(error).execute({})

        assert (result.success, result.error) == (False, message)
        assert result.metadata == {"failure": "tool_error"}
        assert "Traceback" not in result.message
        assert "Traceback" in caplog.text

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_an_order_to_stop_the_program_is_no_result(self, error: type[BaseException]) -> None:
        """R19: it goes on up, out of `execute`."""
        with pytest.raises(error):
            asyncio.run(raising(error()).execute({}))

    async def test_cancelling_the_caller_is_no_result(self) -> None:
        """R19: whoever awaits the call is cancelled with it."""
        entered = asyncio.Event()

        async def endless(input: dict[str, Any], context: ToolContext) -> None:
            entered.set()
            await asyncio.Event().wait()

        calling = asyncio.create_task(bind(endless).execute({}))
        await entered.wait()
        calling.cancel()

        with pytest.raises(asyncio.CancelledError):
            await calling


@dataclass
class Hit:
    name: str
    since: date


HIT = Hit("nuts", date(2026, 1, 2))


class TestResults:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("plain text", "plain text"),
            ({"a": [1, None, True]}, '{"a":[1,null,true]}'),
            ([1.5, "é"], '[1.5,"é"]'),
            (None, "null"),
            (True, "true"),
            (HIT, '{"name":"nuts","since":"2026-01-02"}'),
        ],
    )
    async def test_a_value_is_wrapped_and_rendered_as_json(self, value: Any, text: str) -> None:
        """R20, R21, R22: the model gets text or JSON by one rule, never a Python repr."""
        result = await giving(value).execute({})

        assert (result.success, result.value, result.message) == (True, value, text)

    @pytest.mark.parametrize("value", [object(), {"a": object()}, lambda: None, b"\xff"])
    async def test_what_json_cannot_hold_is_no_result(self, value: Any) -> None:
        """R20, R21: it is refused by its type, once, and not passed on."""
        result = await giving(value).execute({})

        assert (result.success, result.value) == (False, None)
        assert result.metadata == {"failure": "invalid_result"}
        assert result.message.startswith(f"`search` returned {type(value).__name__}, which cannot")
        assert " at 0x" not in result.message

    async def test_a_result_of_a_failure_keeps_its_message(self) -> None:
        """R20, R22: a handler may say itself that it failed, and what the model should read."""
        failed = ToolResult[Any](success=False, error="The shop is shut.", metadata={"until": 9})
        result = await giving(failed).execute({})

        assert (result.success, result.error) == (False, "The shop is shut.")
        assert result.metadata == {"until": 9, "failure": "tool_error"}

    async def test_a_result_whose_value_is_not_json_is_refused(self) -> None:
        """R20: wrapping it in a ToolResult does not let it through."""
        result = await giving(ToolResult(value=object(), message="fine")).execute({})

        assert (result.success, result.value) == (False, None)
        assert result.metadata["failure"] == "invalid_result"
