"""Overriding how a toolset runs its tools: time limits, retries, wrapped errors."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.toolsets.samples import ReadFile, Shell, commands_run, toolset_of
from toolcrib import ToolContext
from toolcrib.context import AgentContext
from toolcrib.errors import ToolTimeout
from toolcrib.testing import run_in_virtual_time
from toolcrib.toolsets import BaseTool, HookableToolsetTool, Toolset

Arguments = dict[str, Any]


class Slow(BaseTool):
    name = "slow"
    description = "Takes as long as it is told"

    async def call(self, ctx: ToolContext, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"


class Patient(Slow):
    name = "patient"
    timeout = 100.0


def elapsed_since(began: float) -> Any:
    return pytest.approx(asyncio.get_running_loop().time() - began, abs=0.1)


class TestOverride:
    async def test_an_override_gets_arguments_context_and_tool(self) -> None:
        """T32: `_call_tool_func(args, ctx, tool)`; the tool has `call_func`, `timeout` and
        `tool_def`, and what the override returns is the result.
        """
        seen: list[Any] = []

        class Curious(Toolset):
            async def _call_tool_func(
                self, args: Arguments, ctx: ToolContext, tool: HookableToolsetTool
            ) -> Any:
                seen.extend([args, ctx.call_id, tool.timeout, tool.tool_def.name])
                return [await tool.call_func({"seconds": 0}, ctx)]

        toolset = Curious(AgentContext(), [Slow, Patient], timeout=7)

        assert await toolset.call_tool("slow", {"seconds": 5}, "c1") == ["done"]
        assert await toolset.call_tool("patient", {"seconds": 5.5}, "c2") == ["done"]
        assert seen == [{"seconds": 5}, "c1", 7, "slow", {"seconds": 5.5}, "c2", 100, "patient"]

    async def test_the_schema_is_the_tools_own(self) -> None:
        """T32: an override does not change what the model is told, and may call the default."""

        class Same(Toolset):
            async def _call_tool_func(
                self, args: Arguments, ctx: Any, tool: HookableToolsetTool
            ) -> Any:
                return await super()._call_tool_func(args, ctx, tool)

        overridden = Same(AgentContext(), [Slow])
        plain = (await toolset_of(Slow).get_tools())["slow"]
        same = (await overridden.get_tools())["slow"]

        assert same.tool_def == plain.tool_def
        assert await overridden.call_tool("slow", {"seconds": 0}, "c1") == "done"
        assert (plain.timeout, same.timeout) == (None, None)

    async def test_a_listed_tool_can_be_run_by_hand(self, tmp_path: Path) -> None:
        """T32: `call_func` runs the tool itself, without hooks, gate or record."""
        toolset = toolset_of(Shell)
        tool = (await toolset.get_tools())["shell"]
        context = ToolContext(session_id="s", cwd=str(tmp_path))

        assert await tool.call_func({"command": "ls"}, context) == "ran ls"
        assert commands_run(tmp_path) == ["ls"]
        assert toolset.ctx.session.transcript() == ()

    @pytest.mark.parametrize("way", ["return", "raise"])
    async def test_returning_and_raising_an_exception_are_the_same(self, way: str) -> None:
        """T33: both are failures, and the post hooks see both."""
        boom = ValueError("boom")
        seen: list[Any] = []

        class Failing(Toolset):
            async def _call_tool_func(
                self, args: Arguments, ctx: Any, tool: HookableToolsetTool
            ) -> Any:
                if way == "raise":
                    raise boom
                return boom

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append(result)
            return result

        toolset = Failing(AgentContext(), [Slow], post_hooks={"slow": post})
        outcome = await toolset.call("slow", {"seconds": 0})

        assert seen == [boom]
        assert outcome.error is boom
        assert outcome.text == "ValueError: boom"


class TimeoutToolset(Toolset):
    """Gives every tool its own time limit, or half a minute."""

    async def _call_tool_func(
        self, args: Arguments, ctx: ToolContext, tool: HookableToolsetTool
    ) -> Any:
        timeout = tool.timeout or 30.0
        try:
            return await asyncio.wait_for(tool.call_func(args, ctx), timeout=timeout)
        except TimeoutError as error:
            return error
        except Exception as error:
            return error


class TestTimeLimits:
    @pytest.mark.parametrize(("name", "limit"), [("slow", 30), ("patient", 100)])
    def test_the_timeout_override(self, name: str, limit: float) -> None:
        """T27, T34: the tool's own limit or 30 s; post hooks get the TimeoutError as a value."""
        seen: list[Any] = []

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append(result)
            return "timed out" if isinstance(result, TimeoutError) else result

        async def scenario() -> None:
            toolset = TimeoutToolset(
                AgentContext(), [Slow, Patient], post_hooks={"slow": post, "patient": post}
            )
            began = asyncio.get_running_loop().time()
            in_time = await toolset.call_tool(name, {"seconds": limit - 1})
            assert elapsed_since(began) == limit - 1
            late = await toolset.call_tool(name, {"seconds": 3600})
            assert elapsed_since(began) == limit - 1 + limit
            assert (in_time, late) == ("done", "timed out")

        run_in_virtual_time(scenario())
        assert seen[0] == "done"
        assert isinstance(seen[1], TimeoutError)

    def test_the_toolsets_own_limit_is_enforced(self) -> None:
        """T37: without any override, `timeout` stops a tool that has no limit of its own."""

        async def scenario() -> None:
            toolset = toolset_of(Slow, Patient, timeout=5)
            began = asyncio.get_running_loop().time()
            late = await toolset.call("slow", {"seconds": 3600})
            assert elapsed_since(began) == 5
            assert isinstance(late.error, ToolTimeout)
            assert late.failure is not None
            assert late.failure.kind == "timeout"
            assert late.text == "`slow` did not finish within 5 seconds."
            assert await toolset.call_tool("patient", {"seconds": 99}) == "done"
            assert not (await toolset.call("patient", {"seconds": 101})).ok

        run_in_virtual_time(scenario())

    def test_no_limit_is_the_default(self) -> None:
        """T34: None is no limit, which is not the same as a limit of nothing."""
        assert run_in_virtual_time(toolset_of(Slow).call("slow", {"seconds": 86400})).ok

    def test_a_tools_own_timeout_error_is_no_expiry(self) -> None:
        """T34: a tool that raises TimeoutError failed by itself; the two can be told apart."""

        class Impatient(BaseTool):
            name = "impatient"
            description = "Waits for another service"

            async def call(self, ctx: ToolContext) -> str:
                raise TimeoutError("the service did not answer")

        async def scenario() -> None:
            toolset = toolset_of(Impatient, Slow, timeout=5)
            own = await toolset.call("impatient", {})
            expired = await toolset.call("slow", {"seconds": 6})
            assert own.failure is not None
            assert expired.failure is not None
            assert (own.failure.kind, expired.failure.kind) == ("tool_error", "timeout")
            assert own.text == "TimeoutError: the service did not answer"

        run_in_virtual_time(scenario())

    def test_hooks_have_a_limit_of_their_own(self) -> None:
        """`hook_timeout` bounds hooks and not tools."""

        async def slow_hook(ctx: ToolContext, args: Arguments) -> Arguments:
            await asyncio.sleep(3)
            return args

        async def scenario() -> None:
            toolset = toolset_of(Slow, pre_hooks={"slow": slow_hook}, hook_timeout=2)
            assert isinstance((await toolset.call("slow", {"seconds": 0})).error, ToolTimeout)
            assert (await toolset_of(Slow, hook_timeout=2).call("slow", {"seconds": 9})).ok

        run_in_virtual_time(scenario())


class RetryToolset(Toolset):
    """Tries again on transient errors, waiting 1, 2, 4 ... seconds between attempts."""

    max_attempts = 3

    async def _call_tool_func(
        self, args: Arguments, ctx: ToolContext, tool: HookableToolsetTool
    ) -> Any:
        last_error: Exception | None = None
        for attempt in range(self.max_attempts):
            if attempt:
                await asyncio.sleep(2 ** (attempt - 1))
            try:
                return await tool.call_func(args, ctx)
            except (ConnectionError, TimeoutError) as error:
                last_error = error
            except Exception as error:
                return error
        return last_error


class Flaky(BaseTool):
    name = "flaky"
    description = "Fails at first"
    errors: tuple[Exception, ...] = ()

    def __init__(self) -> None:
        self.attempts: list[float] = []

    async def call(self, ctx: ToolContext) -> str:
        self.attempts.append(asyncio.get_running_loop().time())
        failed = len(self.attempts) - 1
        if failed < len(self.errors):
            raise self.errors[failed]
        return "done"


class TestRetries:
    def run(self, attempts: int, *errors: Exception) -> tuple[Any, list[Any], list[float], float]:
        """The result, what the post hook saw, the pauses between attempts, and the whole time."""
        seen: list[Any] = []

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append(result)
            return result

        class Patient(RetryToolset):
            max_attempts = attempts

        async def scenario() -> tuple[Any, list[Any], list[float], float]:
            flaky = type("Flaky", (Flaky,), {"errors": errors})
            toolset = Patient(AgentContext(), [flaky], post_hooks={"flaky": post})
            began = asyncio.get_running_loop().time()
            outcome = await toolset.call("flaky", {})
            took = asyncio.get_running_loop().time() - began
            tool = (await toolset.get_tools())["flaky"].tool
            assert isinstance(tool, Flaky)
            pauses = [b - a for a, b in zip(tool.attempts, tool.attempts[1:], strict=False)]
            return outcome.error or outcome.value, seen, pauses, took

        return run_in_virtual_time(scenario())

    def test_transient_errors_are_tried_again_with_growing_pauses(self) -> None:
        """T35: pauses of 1, 2 and 4 s; then the result, and post hooks run once."""
        errors = ConnectionError(), TimeoutError(), ConnectionError()
        result, seen, pauses, took = self.run(4, *errors)

        assert (result, seen) == ("done", ["done"])
        assert pauses == pytest.approx([1, 2, 4], abs=0.1)
        assert took == pytest.approx(7, abs=0.1)

    def test_the_last_error_is_the_result_without_another_pause(self) -> None:
        """T35: three attempts, no sleep after the last; post hooks see the last error once."""
        errors = ConnectionError("1"), ConnectionError("2"), ConnectionError("3"), ValueError()
        result, seen, pauses, took = self.run(3, *errors)

        assert result is errors[2]
        assert seen == [errors[2]]
        assert pauses == pytest.approx([1, 2], abs=0.1)
        assert took == pytest.approx(3, abs=0.1)

    def test_other_errors_are_not_tried_again(self) -> None:
        """T35: what another try cannot mend is the result at once."""
        error = ValueError("no")
        result, seen, pauses, took = self.run(3, error)

        assert (result, seen, pauses) == (error, [error], [])
        assert took == pytest.approx(0, abs=0.1)


class ToolExecutionError(Exception):
    def __init__(self, message: str, *, original_error: Exception, tool_args: Arguments) -> None:
        super().__init__(message)
        self.original_error = original_error
        self.tool_args = tool_args


class WrappingToolset(Toolset):
    """Adds to every error which tool failed, and with what."""

    async def _call_tool_func(
        self, args: Arguments, ctx: ToolContext, tool: HookableToolsetTool
    ) -> Any:
        try:
            return await tool.call_func(args, ctx)
        except Exception as error:
            return ToolExecutionError(
                f"Tool '{tool.tool_def.name}' failed: {error}",
                original_error=error,
                tool_args=args,
            )


async def test_the_wrapping_override() -> None:
    """T36: the error carries the original, the arguments and the tool's name."""
    toolset = WrappingToolset(AgentContext(), [ReadFile])

    with pytest.raises(ToolExecutionError, match=r"^Tool 'read_file' failed: ") as caught:
        await toolset.call_tool("read_file", {"path": "/no/such/file"})

    assert isinstance(caught.value.original_error, FileNotFoundError)
    assert caught.value.tool_args == {"path": "/no/such/file"}
