"""The examples of the toolset document, in a real agent. Only the names of packages are changed."""

# Without `from __future__ import annotations`: readers paste the examples as they stand, so their
# annotations must be good at run time too.
import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, RunContext
from pydantic_ai.tools import AgentDepsT

from tests.toolsets.agent_bridge.agents import agent_of, call, deferred, run, scripted, told
from toolcrib.context import AgentContext
from toolcrib.testing import run_in_virtual_time
from toolcrib.toolsets import BaseTool, GlobalHooks, HookableToolsetTool, Toolset

logger = logging.getLogger("tests.document")


class ReadFileTool(BaseTool):
    name = "read_file"
    description = "Read contents of a file"

    async def call(self, ctx: RunContext[AgentContext], path: str) -> str:
        return await asyncio.to_thread(Path(path).read_text, "utf-8")


class WriteFileTool(BaseTool):
    name = "write_file"
    description = "Write a file"

    async def call(self, ctx: RunContext[AgentContext], path: str, text: str) -> str:
        await asyncio.to_thread(Path(path).write_text, text, "utf-8")
        return f"wrote {len(text)} characters"


class MyTool(BaseTool):
    name = "my_tool"
    description = "..."
    is_there = True

    def is_available(self) -> bool:
        """Return False to exclude this tool when skip_unavailable=True."""
        return self.is_there

    def get_instruction(self, ctx: RunContext[AgentContext]) -> str | None:
        """Return dynamic instructions injected into system prompt."""
        return "Use this tool when..."

    def get_approval_metadata(self) -> dict[str, Any] | None:
        """Return metadata for ApprovalRequired when HITL is triggered."""
        return {"reason": "This tool modifies files"}

    async def call(self, ctx: RunContext[AgentContext]) -> str:
        return "done"


class TestUsingToolset:
    async def test_tools_and_hooks(self, tmp_path: Path) -> None:
        """T10, T13, T15: the document's toolset in the document's agent."""
        order: list[str] = []

        async def my_pre_hook(
            ctx: RunContext[AgentContext], args: dict[str, Any]
        ) -> dict[str, Any]:
            order.append("pre")
            return {"path": str(tmp_path / args["path"])}

        async def my_post_hook(ctx: RunContext[AgentContext], result: Any) -> Any:
            order.append("post")
            return result

        async def global_pre(
            ctx: RunContext[AgentContext], tool_name: str, args: dict[str, Any]
        ) -> dict[str, Any]:
            order.append(f"global_pre {tool_name}")
            return args

        async def global_post(ctx: RunContext[AgentContext], tool_name: str, result: Any) -> Any:
            order.append(f"global_post {tool_name}")
            return result

        (tmp_path / "a.txt").write_text("text", "utf-8")
        ctx = AgentContext()
        toolset = Toolset(
            ctx,
            tools=[ReadFileTool, WriteFileTool],
            pre_hooks={"read_file": my_pre_hook},
            post_hooks={"write_file": my_post_hook},
            global_hooks=GlobalHooks(pre=global_pre, post=global_post),
        )

        model = scripted(
            [call("read_file", "c1", path="a.txt")],
            [call("write_file", "c2", path=str(tmp_path / "b.txt"), text="more")],
        )
        agent = Agent(model=model, toolsets=[toolset])
        result = await agent.run("go")

        assert told(result, "c1") == ("success", "text")
        assert told(result, "c2") == ("success", "wrote 4 characters")
        assert order == [
            *("global_pre read_file", "pre", "global_post read_file"),
            *("global_pre write_file", "post", "global_post write_file"),
        ]

    async def test_optional_methods(self) -> None:
        """T5, T7, T9: availability, instructions and approval metadata."""
        ctx = AgentContext()
        ctx.need_user_approve_tools = ["my_tool"]
        result = await run(Toolset(ctx, tools=[MyTool]), [call("my_tool")])

        assert getattr(result.all_messages()[0], "instructions", None) == "Use this tool when..."
        assert deferred(result).metadata == {"c1": {"reason": "This tool modifies files"}}

        class Gone(MyTool):
            is_there = False

        gone = await run(Toolset(AgentContext(), tools=[Gone]))
        assert getattr(gone.all_messages()[0], "instructions", "?") is None


class TestHookExamples:
    async def test_logging(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """T18: the logging hook."""

        async def logging_post_hook(ctx: RunContext, tool_name: str, result: Any) -> Any:
            logger.info(f"Tool {tool_name} returned: {result}")
            return result

        (tmp_path / "a").write_text("text", "utf-8")
        toolset = Toolset(
            AgentContext(),
            tools=[ReadFileTool],
            global_hooks=GlobalHooks(post=logging_post_hook),
        )
        with caplog.at_level(logging.INFO, "tests.document"):
            result = await run(toolset, [call("read_file", path=str(tmp_path / "a"))])

        assert told(result) == ("success", "text")
        assert caplog.messages == ["Tool read_file returned: text"]

    async def test_error_recovery(self, tmp_path: Path) -> None:
        """T24, T25: a missing file is a friendly text; any other error is raised."""

        async def error_recovery_hook(ctx: RunContext, result: Any) -> Any:
            if isinstance(result, FileNotFoundError):
                return "File not found. Please check the path."
            if isinstance(result, Exception):
                # Log and re-raise other errors
                logger.error(f"Tool failed: {result}")
                return result  # Will be raised
            return result

        toolset = Toolset(
            AgentContext(),
            tools=[ReadFileTool],
            post_hooks={"read_file": error_recovery_hook},
        )
        result = await run(toolset, [call("read_file", path=str(tmp_path / "missing"))])

        assert told(result) == ("success", "File not found. Please check the path.")
        with pytest.raises(IsADirectoryError):
            await run(toolset, [call("read_file", path=str(tmp_path))])

    async def test_error_monitoring(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """T26: a monitor counts and logs, and changes nothing."""
        metrics: Counter[str] = Counter()

        async def monitoring_hook(ctx: RunContext, tool_name: str, result: Any) -> Any:
            if isinstance(result, Exception):
                metrics[f"tool.{tool_name}.error"] += 1
                logger.error(f"Tool {tool_name} failed", exc_info=result)
            else:
                metrics[f"tool.{tool_name}.success"] += 1
            return result  # Pass through unchanged

        (tmp_path / "a").write_text("text", "utf-8")
        toolset = Toolset(
            AgentContext(),
            tools=[ReadFileTool],
            global_hooks=GlobalHooks(post=monitoring_hook),
        )
        result = await run(toolset, [call("read_file", path=str(tmp_path / "a"))])
        with pytest.raises(FileNotFoundError):
            await run(toolset, [call("read_file", path=str(tmp_path / "missing"))])

        assert told(result) == ("success", "text")
        assert metrics == {"tool.read_file.success": 1, "tool.read_file.error": 1}
        (logged,) = [each for each in caplog.records if each.name == "tests.document"]
        assert logged.exc_info is not None
        assert "in call" in str(caplog.text)


class TimeoutToolset(Toolset):
    """Toolset with per-tool timeout support."""

    async def _call_tool_func(
        self,
        args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: HookableToolsetTool[AgentDepsT],
    ) -> Any:
        timeout = tool.timeout or 30.0
        try:
            return await asyncio.wait_for(
                tool.call_func(args, ctx),
                timeout=timeout,
            )
        except asyncio.TimeoutError as e:  # noqa: UP041
            return e  # Will be passed to post-hooks
        except Exception as e:
            return e


class RetryToolset(Toolset):
    """Toolset with automatic retry on transient errors."""

    async def _call_tool_func(
        self,
        args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: HookableToolsetTool[AgentDepsT],
    ) -> Any:
        max_retries = 3
        last_error: Exception | None = None

        for attempt in range(max_retries):
            try:
                return await tool.call_func(args, ctx)
            except (ConnectionError, TimeoutError) as e:
                last_error = e
                await asyncio.sleep(2**attempt)  # Exponential backoff
            except Exception as e:
                return e  # Non-retryable error

        return last_error  # All retries failed


class ToolExecutionError(Exception):
    def __init__(self, message: str, original_error: Exception, tool_args: dict[str, Any]) -> None:
        super().__init__(message)
        self.original_error = original_error
        self.tool_args = tool_args


class WrappingToolset(Toolset):
    """Toolset that wraps errors with additional context."""

    async def _call_tool_func(
        self,
        args: dict[str, Any],
        ctx: RunContext[AgentDepsT],
        tool: HookableToolsetTool[AgentDepsT],
    ) -> Any:
        try:
            return await tool.call_func(args, ctx)
        except Exception as e:
            # Wrap with tool context
            tool_name = tool.tool_def.name if tool.tool_def else "unknown"
            return ToolExecutionError(
                f"Tool '{tool_name}' failed: {e}",
                original_error=e,
                tool_args=args,
            )


def tool_that(act: Callable[[], Awaitable[str]], **attributes: Any) -> type[BaseTool]:
    """A tool that does `act`."""

    class Act(BaseTool):
        name = "act"
        description = "Acts"

        async def call(self, ctx: RunContext[AgentContext], note: str = "") -> str:
            return await act()

    return type("Act", (Act,), attributes)


class TestExtending:
    def test_timeouts(self) -> None:
        """T27, T34: the expired limit reaches the post hooks as a value; 30 s where none is set."""
        seen: list[Any] = []

        async def post(ctx: RunContext, result: Any) -> Any:
            seen.append(result)
            return "too slow" if isinstance(result, TimeoutError) else result

        async def sleep(seconds: float) -> str:
            await asyncio.sleep(seconds)
            return "slept"

        async def scenario(seconds: float) -> tuple[Any, float]:
            loop = asyncio.get_running_loop()
            began = loop.time()
            tool = tool_that(lambda: sleep(seconds))
            result = await run(
                TimeoutToolset(AgentContext(), [tool], post_hooks={"act": post}), [call("act")]
            )
            return told(result), round(loop.time() - began)

        assert run_in_virtual_time(scenario(29)) == (("success", "slept"), 29)
        assert run_in_virtual_time(scenario(31)) == (("success", "too slow"), 30)
        assert isinstance(seen[-1], TimeoutError)

    def test_retries(self) -> None:
        """T35: transient errors are tried again after 1, 2 and 4 seconds, others are not, and post
        hooks run once.
        """
        posts: list[Any] = []

        async def post(ctx: RunContext, result: Any) -> Any:
            posts.append(result)
            return "gave up" if isinstance(result, Exception) else result

        async def scenario(answers: list[Any]) -> tuple[Any, int, int]:
            tries: list[int] = []

            async def act() -> str:
                tries.append(1)
                answer = answers[len(tries) - 1]
                if isinstance(answer, Exception):
                    raise answer
                return answer

            loop = asyncio.get_running_loop()
            began = loop.time()
            toolset = RetryToolset(AgentContext(), [tool_that(act)], post_hooks={"act": post})
            result = await run(toolset, [call("act")])
            return told(result)[1], len(tries), round(loop.time() - began)

        down = ConnectionError("down")
        assert run_in_virtual_time(scenario([down, down, "sunny"])) == ("sunny", 3, 3)
        assert run_in_virtual_time(scenario([down, down, down])) == ("gave up", 3, 7)
        assert run_in_virtual_time(scenario([ValueError("no")])) == ("gave up", 1, 0)
        assert len(posts) == 3

    async def test_wrapping(self) -> None:
        """T36: the error that leaves the run names the tool and carries cause and arguments."""

        async def fail() -> str:
            raise KeyError("missing")

        with pytest.raises(ToolExecutionError, match="Tool 'act' failed") as caught:
            await run(WrappingToolset(AgentContext(), [tool_that(fail)]), [call("act", note="n")])

        assert isinstance(caught.value.original_error, KeyError)
        assert caught.value.tool_args == {"note": "n"}


class ShellTool(BaseTool):
    name = "shell"
    description = "Execute shell commands"

    def get_approval_metadata(self) -> dict[str, Any] | None:
        return {
            "warning": "This will execute a shell command",
            "risk_level": "high",
        }

    async def call(self, ctx: RunContext[AgentContext], command: str) -> str:
        return f"{command}: {ctx.tool_call_approved}"


class TestApproval:
    async def test_how_it_works(self) -> None:
        """T38, T39, T40: asked with the tool's metadata, deferred, run once it is approved."""
        async with AgentContext() as ctx:
            # Tools that require user approval before execution
            ctx.need_user_approve_tools = ["shell", "edit", "replace"]
            agent = agent_of(Toolset(ctx, [ShellTool]), steps=[[call("shell", command="ls")]])
            waiting = await agent.run("go")
            requests = waiting.output

            assert isinstance(requests, DeferredToolRequests)
            assert requests.metadata["c1"] == {
                "warning": "This will execute a shell command",
                "risk_level": "high",
            }
            result = await agent.run(
                message_history=waiting.all_messages(),
                deferred_tool_results=requests.build_results(approvals={"c1": True}),
            )
            assert told(result) == ("success", "ls: True")

    async def test_session_persistence(self) -> None:
        """T45: approval settings are preserved."""
        ctx = AgentContext()
        ctx.need_user_approve_tools = ["shell", "edit", "replace"]

        # Export state (includes need_user_approve_tools)
        state = ctx.export_state()

        # Restore later - approval settings are preserved
        new_ctx = AgentContext().with_state(state)
        assert new_ctx.need_user_approve_tools == ["shell", "edit", "replace"]
