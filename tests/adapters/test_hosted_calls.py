"""`handle_provider_output`: a tool's own say in what the provider's output means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, call, message, response
from toolcrib import EventBus, Session, ToolContext, ToolInvoked, ToolResult, tool
from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.errors import InvalidTool
from toolcrib.tools.code_interpreter import CodeInterpreterResult
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.shell import (
    CommandOutput,
    HandlerShellConfig,
    ShellParams,
    ShellResult,
    handler_shell_tool,
)

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
    """C24, finding 9d: success is what the hook says it is, and the value what it returns. The
    failure is the tool's: nobody should blame the provider.
    """

    def hook(result: CodeInterpreterResult, context: ToolContext) -> Result:
        return ToolResult(success=False, message="42 is not the answer.")

    session = Session()
    with bench(response(run(), message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(hosted=[python(hook)]), session=session)

    (event,) = invoked(session)
    assert event.failure is not None
    assert (event.success, event.value) == (False, None)
    assert (event.failure.kind, event.failure.message) == (
        "tool_error",
        "42 is not the answer.",
    )


@pytest.mark.parametrize("returned", [RuntimeError("broken hook"), "a text", {"value": 1}])
def test_a_hook_that_fails_is_contained(returned: Any) -> None:
    """E10, finding 9d: the prompt goes on; the call is recorded as failed, with what the hook did
    wrong, as a kind of failure of its own.
    """

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
    assert event.failure is not None
    assert event.failure.kind == "hook_error"
    assert isinstance(found.invocations[0][1].value, CodeInterpreterResult)


def test_a_hook_gets_the_error_of_a_failed_call() -> None:
    """Finding 9e: it is called for failures too, with their status and error; None keeps them."""
    seen: list[tuple[Any, Any]] = []

    def hook(result: CodeInterpreterResult, context: ToolContext) -> None:
        seen.append((result.get("status"), result.get("error")))

    session = Session()
    failed = run(status="failed", outputs=None)
    with bench(response(failed, message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(hosted=[python(hook)]), session=session)

    (event,) = invoked(session)
    assert seen == [("failed", "code_interpreter_call failed")]
    assert not event.success
    assert event.failure is not None
    assert event.failure.kind == "provider_error"


def test_a_hook_may_normalise_a_failure() -> None:
    """Finding 9e: what the hook says of a failed call is what the call is."""

    def hook(result: CodeInterpreterResult, context: ToolContext) -> Result:
        return ToolResult(value=CodeInterpreterResult(stdout="cached"), message="from the cache")

    session = Session()
    failed = run(status="failed", outputs=None)
    with bench(response(failed, message("Fine."))) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[python(hook)]), session=session)

    (event,) = invoked(session)
    assert (event.success, event.message, event.failure) == (True, "from the cache", None)
    assert found.invocations[0][1].value.stdout == "cached"


def test_a_hook_that_fails_on_a_failure_hides_nothing() -> None:
    """The provider's error stays in the record, beside that of the hook."""

    def hook(result: CodeInterpreterResult, context: ToolContext) -> Result:
        raise LookupError("oops")

    session = Session()
    failed = run(status="failed", outputs=None)
    with bench(response(failed, message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(hosted=[python(hook)]), session=session)

    (event,) = invoked(session)
    assert event.failure is not None
    assert event.failure.kind == "hook_error"
    for part in ("LookupError: oops", "code_interpreter_call failed"):
        assert part in event.failure.message


def shell(hook: Any, handler: Any) -> ProviderTool[ShellParams, ShellResult, HandlerShellConfig]:
    """A shell that this process runs, with a hook beside its handler."""
    plain = handler_shell_tool(handler, requires_approval=False)
    return replace(plain, handle_provider_output=hook)


def shell_call(number: int = 1) -> Json:
    return {
        "type": "shell_call",
        "id": f"sh_{number}",
        "call_id": f"call_{number}",
        "status": "completed",
        "action": {"commands": ["ls"]},
        "environment": {"type": "local"},
    }


def ran(params: ShellParams, *, context: ToolContext) -> ShellResult:
    return ShellResult((CommandOutput("files\n", exit_code=0),))


async def ran_async(params: ShellParams, *, context: ToolContext) -> ShellResult:
    return ran(params, context=context)


def broken(params: ShellParams, *, context: ToolContext) -> ShellResult:
    raise OSError("no shell")


@pytest.mark.parametrize("handler", [ran, ran_async])
def test_the_hook_is_called_beside_a_handler(handler: Any) -> None:
    """C10, C11, finding 9a: a hook has one meaning. The handler's result is an output like the
    provider's, and both get the same context.
    """
    seen: list[tuple[str, str]] = []

    def hook(result: ShellResult, context: ToolContext) -> ToolResult[ShellResult]:
        seen.append((context.call_id, result.outputs[0].stdout))
        return ToolResult(value=result, message="hooked")

    session = Session()
    with bench(response(shell_call()), ANSWER) as (adapter, _):
        adapter.evaluate(ask(shell(hook, handler)), session=session)

    (event,) = invoked(session)
    assert seen == [("call_1", "files\n")]
    assert (event.success, event.message) == (True, "hooked")


def test_the_hook_gets_what_a_handler_raised() -> None:
    """Finding 9e: beside a handler too, it may normalise a failure, or leave it as it is."""
    seen: list[Any] = []

    def keep(result: Any, context: ToolContext) -> None:
        seen.append(result.get("error"))

    def mend(result: Any, context: ToolContext) -> ToolResult[ShellResult]:
        return ToolResult(value=ShellResult(), message="nothing ran")

    session = Session()
    for hook in (keep, mend):
        with bench(response(shell_call(len(seen) + 1)), ANSWER) as (adapter, _):
            adapter.evaluate(ask(shell(hook, broken)), session=session)

    kept, mended = invoked(session)
    assert seen == ["OSError: no shell"]
    assert kept.failure is not None
    assert (kept.failure.kind, kept.failure.error_type) == ("tool_error", "OSError")
    assert (mended.success, mended.message) == (True, "nothing ran")


def test_a_hook_beside_a_handler_that_fails_is_a_failure_of_its_own_kind() -> None:
    """Finding 9d: the tool did its work, and the record says that the hook did not."""

    def hook(result: ShellResult, context: ToolContext) -> ToolResult[ShellResult]:
        raise LookupError("oops")

    session = Session()
    with bench(response(shell_call()), ANSWER) as (adapter, _):
        adapter.evaluate(ask(shell(hook, ran)), session=session)

    (event,) = invoked(session)
    assert event.failure is not None
    assert (event.failure.kind, event.failure.error_type) == ("hook_error", "LookupError")
    assert event.failure.message == "handle_provider_output failed: LookupError: oops"


def test_an_async_hook_needs_an_async_handler() -> None:
    """A handler in a thread could not wait for it."""

    async def hook(result: ShellResult, context: ToolContext) -> None: ...

    with pytest.raises(InvalidTool, match="make both async, or neither"):
        prepare(shell(hook, ran))
    assert prepare(shell(hook, ran_async)).is_async


def test_document_cs_hook_runs_as_it_is_printed() -> None:
    """C34: it reads its result like a dict, and hands it on."""

    def identity_provider_output(result: Any, context: ToolContext) -> ToolResult[Any]:
        return ToolResult(
            message=str(result.get("output_text") or result.get("message") or ""),
            value=result,
            success=True,
        )

    session = Session()
    with bench(response(run(), message("Fine."))) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[python(identity_provider_output)]), session=session)

    (event,) = invoked(session)
    assert (event.success, event.message) == (True, "42\n")
    assert found.invocations[0][1].value.stdout == "42\n"


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
