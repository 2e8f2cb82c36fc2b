"""The code interpreter's document where the rules are about the whole: contexts, hooks, telemetry.

Its usage example is run in `tests/adapters/openai/test_document_c.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, call, message, response
from toolcrib import PromptEvaluationError, Session, ToolContext, ToolInvoked, ToolResult, tool
from toolcrib.adapters.openai import Budget
from toolcrib.errors import InvalidEvent
from toolcrib.ledger.events import ToolEmitted, ToolProgress
from toolcrib.ledger.prompt_events import ModelResponded, PromptStarted
from toolcrib.tools import OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import AutoContainer, CodeInterpreterResult

Result = ToolResult[CodeInterpreterResult]
FAILED = """\
read 3 rows
Traceback (most recent call last):
  File "/tmp/a.py", line 1, in <module>
ZeroDivisionError: division by zero
"""


def ran(logs: str = "42\n", **fields: Any) -> Json:
    return {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "code": "print(42)",
        "container_id": "cntr_1",
        "outputs": [{"type": "logs", "logs": logs}],
        **fields,
    }


def python(
    hook: Callable[[CodeInterpreterResult, ToolContext], Any] | None = None, **fields: Any
) -> OpenAICodeInterpreterTool:
    return OpenAICodeInterpreterTool(name="python", handle_provider_output=hook, **fields)


def test_the_description_says_who_writes_the_code() -> None:
    """C16: the tool takes nothing, so a reader must learn from its description what it does."""
    made = OpenAICodeInterpreterTool()

    assert made.params_type is None
    assert "Python code that the model writes" in made.description


class TestTheHooksContext:
    """C8: a hook has what a handler has: session, prompt, adapter, bus, deadline, and a voice."""

    @pytest.mark.parametrize("budget", [None, Budget(seconds=60)], ids=["free", "limited"])
    def test_it_is_the_context_that_a_handler_gets(self, budget: Budget | None) -> None:
        """C8, C11: field by field the same, but for the call it belongs to."""
        contexts: list[ToolContext] = []

        @tool
        def look(ctx: ToolContext) -> str:
            """Look around."""
            contexts.append(ctx)
            return "seen"

        def hook(result: CodeInterpreterResult, context: ToolContext) -> None:
            contexts.append(context)

        session = Session(deps="deps", metadata={"user": "ann"}, environment={"LANG": "C"})
        prompt = ask(look, hosted=[python(hook)])
        with bench(response(ran(), call("look")), response(message("Fine."))) as (adapter, _):
            adapter.evaluate(prompt, session=session, budget=budget)

        of_hook, of_handler = contexts
        for field in ("session_id", "cwd", "environment", "metadata", "turn", "deps", "deadline"):
            assert getattr(of_hook, field) == getattr(of_handler, field)
        for field in ("session", "bus", "prompt", "adapter"):
            assert getattr(of_hook, field) is getattr(of_handler, field) is not None
        assert (of_hook.deadline is None) == (budget is None)
        assert (of_hook.tool_name, of_hook.call_id) == ("python", "ci_1")

    def test_it_may_emit(self) -> None:
        """C8: events of the tool's own and progress, recorded before the call they belong to."""

        def hook(result: CodeInterpreterResult, context: ToolContext) -> Result:
            context.progress(1, 2, "reading")
            context.emit("tool.python.rows", {"count": 3})
            return ToolResult(value=result, message="read")

        session = Session()
        with bench(response(ran(), message("Fine."))) as (adapter, _):
            adapter.evaluate(ask(hosted=[python(hook)]), session=session)

        (event,) = happened(session, ToolEmitted)
        assert (event.call_id, event.type, event.data) == ("ci_1", "tool.python.rows", {"count": 3})
        assert [each.message for each in happened(session, ToolProgress)] == ["reading"]
        kinds = [record.kind for record in session.records()]
        assert kinds.index("tool.emitted") < kinds.index("tool.invoked")
        assert happened(session, ToolInvoked)[0].message == "read"

    def test_a_hook_that_is_over_can_say_nothing_more(self) -> None:
        """C8: the call is written down by then; what comes later would belong to nothing."""
        kept: list[ToolContext] = []

        def hook(result: CodeInterpreterResult, context: ToolContext) -> None:
            kept.append(context)

        with bench(response(ran(), message("Fine."))) as (adapter, _):
            adapter.evaluate(ask(hosted=[python(hook)]))

        with pytest.raises(InvalidEvent, match="call ci_1 is over"):
            kept[0].emit("tool.python.late")

    @pytest.mark.parametrize(
        ("uses", "end"), [(("add",), "3"), ((), "not_permitted")], ids=["declared", "undeclared"]
    )
    def test_it_may_call_the_tools_that_it_declares(self, uses: tuple[str, ...], end: str) -> None:
        """C8: like a handler, through the whole path and linked to the call; no others."""

        async def hook(result: CodeInterpreterResult, context: ToolContext) -> Result:
            outcome = await context.call_tool("add", {"a": 1, "b": 2})
            told = outcome.failure.kind if outcome.failure else outcome.text
            return ToolResult(value=result, message=told)

        session = Session()
        with bench(response(ran(), message("Fine."))) as (adapter, _):
            adapter.evaluate(ask(add, hosted=[python(hook, uses=uses)]), session=session)

        inner, outer = happened(session, ToolInvoked)
        assert (inner.name, inner.parent_call_id) == ("add", "ci_1")
        assert (outer.name, outer.message) == ("python", end)

    def test_it_may_be_async(self) -> None:
        """C3: a hook that has to wait for something is awaited."""

        async def hook(result: CodeInterpreterResult, context: ToolContext) -> Result:
            said = await context.adapter.evaluate_async(
                ask(text="Is that so?"), session=context.session
            )
            return ToolResult(value=result, message=said.text)

        session = Session()
        replies = [response(ran(), message("Fine.")), response(message("It is."))]
        with bench(*replies) as (adapter, _):
            adapter.evaluate(ask(hosted=[python(hook)]), session=session)

        assert [event.message for event in happened(session, ToolInvoked)] == ["It is."]
        assert [event.parent_call_id for event in happened(session, PromptStarted)] == [
            None,
            "ci_1",
        ]


def test_an_exception_keeps_its_output_and_the_files_that_are_cited() -> None:
    """C32: no success, the end of the traceback in the value, and what the answer cites."""
    text = "It failed, see [log](sandbox:/mnt/data/log.txt)."
    cited = {
        "type": "container_file_citation",
        "container_id": "cntr_1",
        "file_id": "cfile_1",
        "filename": "log.txt",
        "start_index": text.index("["),
        "end_index": len(text) - 1,
    }
    session = Session()
    with bench(response(ran(FAILED), message(text, cited))) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[python()]), session=session)

    (event,) = happened(session, ToolInvoked)
    assert (event.success, event.value["exit_code"]) == (False, 1)
    assert event.value["stderr"].endswith("ZeroDivisionError: division by zero")
    assert [file["file_id"] for file in event.value["files"]] == ["cfile_1"]
    (file,) = found.hosted_outputs["python"].files
    assert found.text[slice(*file.span)] == "[log](sandbox:/mnt/data/log.txt)"


def test_what_was_filtered_is_an_error_that_programs_can_catch() -> None:
    """C33, X15: never an AssertionError, which `python -O` would drop."""
    filtered = {
        **response(ran(), message("")),
        "status": "incomplete",
        "incomplete_details": {"reason": "content_filter"},
    }
    with (
        bench(filtered) as (adapter, _),
        pytest.raises(PromptEvaluationError, match="content_filter") as caught,
    ):
        adapter.evaluate(ask(hosted=[python()]))

    assert caught.value.phase == "response"
    assert not isinstance(caught.value, AssertionError)


def test_telemetry_is_in_the_ledger_and_on_the_log_and_nowhere_else(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """C37: request id, model, token limits, container and memory tier; nothing is printed."""
    session = Session()
    made = python(container=AutoContainer("16g"))
    with (
        caplog.at_level(logging.INFO, logger="toolcrib"),
        bench(response(ran(), message("Fine."))) as (adapter, _),
    ):
        adapter.evaluate(
            ask(hosted=[made]),
            session=session,
            budget=Budget(max_tokens=5000),
            settings={"max_output_tokens": 800},
        )

    (started,), (heard,) = happened(session, PromptStarted), happened(session, ModelResponded)
    assert started.token_limits == {"max_tokens": 5000, "max_output_tokens": 800}
    assert (started.model, heard.model, heard.request_id) == ("test-model", "test-model", "req_1")
    assert (heard.usage["input_tokens"], heard.usage["output_tokens"]) == (10, 5)
    logged = "\n".join(caplog.messages)
    assert "16g of memory" in logged
    assert "container cntr_1" in logged
    assert capfd.readouterr() == ("", "")


def test_limits_that_nobody_set_are_not_recorded() -> None:
    """C37: no limit is not a limit of nothing."""
    session = Session()
    with bench(response(message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(), session=session)

    assert happened(session, PromptStarted)[0].token_limits is None


async def test_containers_are_not_remembered() -> None:
    """C38: a prompt that follows asks for a container anew; nothing is kept beyond the provider."""
    with bench(*[response(ran(), message("Fine."))] * 2) as (adapter, provider):
        for _ in range(2):
            await adapter.evaluate_async(ask(hosted=[python()]))

    assert [body["tools"][0]["container"] for body in provider.bodies] == [
        {"type": "auto", "memory_limit": "1g"}
    ] * 2
