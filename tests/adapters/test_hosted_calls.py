"""`handle_provider_output`: a tool's own say in what the provider's output means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, call, message, response
from toolcrib import EventBus, Session, ToolContext, ToolInvoked, ToolResult, tool
from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import CodeInterpreterResult

Result = ToolResult[CodeInterpreterResult]
Hook = Callable[[CodeInterpreterResult, ToolContext], Result | None]

ANSWER = response(message("Fine."))


def run(number: int = 1, logs: str = "42\n", **fields: Any) -> Json:
    """A call that the provider ran."""
    outputs = [{"type": "logs", "logs": logs}]
    return {
        "type": "code_interpreter_call",
        "id": f"ci_{number}",
        "status": "completed",
        "code": f"print({number})",
        "container_id": "cntr_1",
        "outputs": outputs,
        **fields,
    }


def python(hook: Hook | None) -> OpenAICodeInterpreterTool:
    return OpenAICodeInterpreterTool(name="python", handle_provider_output=hook)


def invoked(session: Session) -> list[ToolInvoked]:
    return happened(session, ToolInvoked)


def test_the_hook_gets_each_typed_result_in_order() -> None:
    """C4, C22, C23, C35: output is read into the tool's type first; then the hook is called once
    for each call, in the provider's order.
    """
    seen: list[tuple[str, str]] = []

    def hook(result: CodeInterpreterResult, context: ToolContext) -> Result:
        seen.append((context.call_id, result.stdout))
        return ToolResult(value=result, message=f"ran {result.code}")

    session = Session()
    with bench(response(run(1), run(2, "43\n"), message("Fine."))) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[python(hook)]), session=session)

    assert seen == [("ci_1", "42\n"), ("ci_2", "43\n")]
    assert [event.message for event in invoked(session)] == ["ran print(1)", "ran print(2)"]
    assert [ran.message for _, ran in found.invocations] == ["ran print(1)", "ran print(2)"]


def test_the_hook_has_the_context_of_its_call() -> None:
    """C8, C11: prompt, adapter, session, bus and deadline are those of the evaluation, and the
    call is the one that is recorded.
    """
    contexts: list[ToolContext] = []

    def hook(result: CodeInterpreterResult, context: ToolContext) -> None:
        contexts.append(context)

    session = Session(deps="our deps", metadata={"user": "ann"})
    prompt = ask(hosted=[python(hook)])
    with bench(response(run(), message("Fine."))) as (adapter, _):
        adapter.evaluate(prompt, session=session)

    (context,) = contexts
    assert context.prompt is prompt
    assert context.adapter is adapter
    assert context.session is session
    assert context.bus is session.bus
    assert (context.deps, context.metadata) == ("our deps", {"user": "ann"})
    assert (context.tool_name, context.call_id, context.turn) == ("python", "ci_1", 1)


def test_handlers_have_the_same_way_back_to_the_prompt() -> None:
    """C8: a tool of ours knows the prompt and the adapter too."""
    contexts: list[ToolContext] = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look around."""
        contexts.append(ctx)
        return "seen"

    prompt = ask(look)
    with bench(response(call("look")), ANSWER) as (adapter, _):
        adapter.evaluate(prompt)

    assert (contexts[0].prompt, contexts[0].adapter) == (prompt, adapter)


def test_without_a_hook_or_with_none_from_it_the_default_holds() -> None:
    """C5, C10, X3: the codec's own reading stands where the hook has nothing to say."""
    sessions: list[Session] = []
    hooks: list[Hook | None] = [None, lambda result, context: None]
    for hook in hooks:
        sessions.append(Session())
        with bench(response(run(), message("Fine."))) as (adapter, _):
            adapter.evaluate(ask(hosted=[python(hook)]), session=sessions[-1])

    for session in sessions:
        (event,) = invoked(session)
        assert (event.message, event.success) == ("42\n", True)


def test_a_hook_may_say_that_the_call_failed() -> None:
    """C24: success is what the hook says it is, and the value what it returns."""

    def hook(result: CodeInterpreterResult, context: ToolContext) -> Result:
        return ToolResult(success=False, message="42 is not the answer.")

    session = Session()
    with bench(response(run(), message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(hosted=[python(hook)]), session=session)

    (event,) = invoked(session)
    assert event.failure is not None
    assert (event.success, event.value) == (False, None)
    assert (event.failure.kind, event.failure.message) == (
        "provider_error",
        "42 is not the answer.",
    )


@pytest.mark.parametrize("returned", [RuntimeError("broken hook"), "a text", {"value": 1}])
def test_a_hook_that_fails_is_contained(returned: Any) -> None:
    """E10: the prompt goes on; the call is recorded as failed, with what the hook did wrong."""

    def hook(result: CodeInterpreterResult, context: ToolContext) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    session = Session()
    with bench(response(run(), message("Fine."))) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[python(hook)]), session=session)

    (event,) = invoked(session)
    assert found.text == "Fine."
    assert not event.success
    assert event.message.startswith("handle_provider_output failed: ")
    assert isinstance(found.invocations[0][1].value, CodeInterpreterResult)


def test_a_hook_sees_a_call_that_the_provider_failed() -> None:
    """N17, X9, H44: its result says so, and None from the hook leaves the failure as it is."""
    seen: list[Any] = []

    def hook(result: CodeInterpreterResult, context: ToolContext) -> None:
        seen.append(result)

    session = Session()
    failed = run(status="failed", outputs=None)
    with bench(response(failed, message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(hosted=[python(hook)]), session=session)

    (event,) = invoked(session)
    assert [(result.status, result.error) for result in seen] == [
        ("failed", "code_interpreter_call failed")
    ]
    assert (event.success, event.value["status"]) == (False, "failed")


def test_a_hook_may_evaluate_another_prompt() -> None:
    """C8: a prompt from inside a call runs as a turn of the same session, while the outer waits."""
    inner = ask(text="Is 42 right?")

    def hook(result: CodeInterpreterResult, context: ToolContext) -> Result:
        said = context.adapter.evaluate(inner, session=context.session)
        return ToolResult(value=result, message=said.text)

    session = Session()
    replies = [response(run(), message("Fine.")), response(message("Yes."))]
    with bench(*replies) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[python(hook)]), session=session)

    assert found.text == "Fine."
    assert [event.message for event in invoked(session)] == ["Yes."]
    assert session.turn == 2


def test_a_tool_may_evaluate_another_prompt() -> None:
    """C8: also an async tool, in the loop it runs in."""

    @tool
    async def ask_again(ctx: ToolContext) -> str:
        """Ask the model something else."""
        said = await ctx.adapter.evaluate_async(ask(text="Really?"), session=ctx.session)
        return said.text

    session = Session()
    replies = [response(call("ask_again")), response(message("Really.")), ANSWER]
    with bench(*replies) as (adapter, provider):
        found = adapter.evaluate(ask(ask_again), session=session)

    assert found.text == "Fine."
    assert provider.bodies[2]["input"][0]["output"] == "Really."


def test_the_hook_may_tell_the_bus() -> None:
    """C8, C37: what a hook has to say goes over the bus it is given."""
    heard: list[str] = []
    bus = EventBus()
    bus.subscribe(ToolInvoked, lambda event: heard.append(event.name))

    def hook(result: CodeInterpreterResult, context: ToolContext) -> None:
        assert context.bus is not None
        made = ToolInvoked(
            session_id=context.session_id, at=0, call_id="x", name="own", params=None,
            message="", success=True,
        )  # fmt: skip
        context.bus.publish(made)

    with bench(response(run(), message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(add, hosted=[python(hook)]), bus=bus)

    assert heard == ["own", "python"]
