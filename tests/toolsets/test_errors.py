"""Errors of tools, as post hooks see them: logged, turned into text, recovered from, passed on."""

import logging
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.toolsets.samples import ReadFile, toolset_of
from toolcrib import ToolContext
from toolcrib.toolsets import BaseTool, GlobalHooks

logger = logging.getLogger("tests.toolsets")


class Boom(Exception):
    pass


class Fragile(BaseTool):
    """Raises one and the same exception at every call."""

    name = "fragile"
    description = "Fails"
    boom = Boom("broken")

    async def call(self, ctx: ToolContext) -> str:
        raise self.boom


class TestLogging:
    async def test_the_logging_hook(self, caplog: pytest.LogCaptureFixture) -> None:
        """T18: a global post hook logs what every tool returned and passes it on."""

        async def logging_post_hook(ctx: ToolContext, tool_name: str, result: Any) -> Any:
            logger.info("Tool %s returned: %s", tool_name, result)
            return result

        class Greet(BaseTool):
            name = "greet"
            description = "Greet"

            async def call(self, ctx: ToolContext, who: str) -> str:
                return f"Hello, {who}."

        toolset = toolset_of(Greet, global_hooks=GlobalHooks(post=logging_post_hook))
        with caplog.at_level(logging.INFO, "tests.toolsets"):
            result = await toolset.call_tool("greet", {"who": "Ada"})

        assert result == "Hello, Ada."
        assert caplog.messages == ["Tool greet returned: Hello, Ada."]


class TestRecovery:
    async def recover(self, ctx: ToolContext, result: Any) -> Any:
        if isinstance(result, FileNotFoundError):
            return "File not found. Please check the path."
        if isinstance(result, Exception):
            logger.error("Tool failed: %s", result)
            return result
        return result

    async def test_an_error_becomes_a_friendly_text(self, tmp_path: Path) -> None:
        """T22, T25: the hook gets the exception in the result's place and returns a text."""
        toolset = toolset_of(ReadFile, post_hooks={"read_file": self.recover})
        outcome = await toolset.call("read_file", {"path": str(tmp_path / "missing")})

        assert outcome.ok
        assert (outcome.value, outcome.error) == ("File not found. Please check the path.", None)

    async def test_an_error_that_is_not_recovered_is_raised(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """T24: an exception that the hook passes on is raised, as what it was."""
        toolset = toolset_of(ReadFile, post_hooks={"read_file": self.recover})

        with pytest.raises(IsADirectoryError):
            await toolset.call_tool("read_file", {"path": str(tmp_path)})
        assert caplog.messages[0].startswith("Tool failed: ")

    async def test_a_result_passes_through(self, tmp_path: Path) -> None:
        """T18: the same hook leaves a success alone."""
        (tmp_path / "a").write_text("text", "utf-8")
        toolset = toolset_of(ReadFile, post_hooks={"read_file": self.recover})

        assert await toolset.call_tool("read_file", {"path": str(tmp_path / "a")}) == "text"

    async def test_the_global_hook_sees_the_recovered_value(self, tmp_path: Path) -> None:
        """T23: after a recovery nobody sees the exception any more."""
        seen: list[Any] = []

        async def global_post(ctx: ToolContext, name: str, result: Any) -> Any:
            seen.append(result)
            return result

        toolset = toolset_of(
            ReadFile,
            post_hooks={"read_file": self.recover},
            global_hooks=GlobalHooks(post=global_post),
        )
        await toolset.call_tool("read_file", {"path": str(tmp_path / "missing")})

        assert seen == ["File not found. Please check the path."]


class TestMonitoring:
    async def test_a_monitor_counts_without_changing_anything(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """T26: successes and errors are counted, logged with the traceback, and passed on."""
        metrics = Counter[str]()

        async def monitoring_hook(ctx: ToolContext, tool_name: str, result: Any) -> Any:
            if isinstance(result, Exception):
                metrics[f"tool.{tool_name}.error"] += 1
                logger.error("Tool %s failed", tool_name, exc_info=result)
            else:
                metrics[f"tool.{tool_name}.success"] += 1
            return result

        (tmp_path / "a").write_text("text", "utf-8")
        toolset = toolset_of(ReadFile, Fragile, global_hooks=GlobalHooks(post=monitoring_hook))

        assert await toolset.call_tool("read_file", {"path": str(tmp_path / "a")}) == "text"
        for _ in range(2):
            with pytest.raises(Boom, match="broken"):
                await toolset.call_tool("fragile", {})

        assert metrics == {"tool.read_file.success": 1, "tool.fragile.error": 2}
        assert "Tool fragile failed" in caplog.text
        assert "raise self.boom" in caplog.text


class TestRaising:
    async def test_both_hooks_get_the_very_exception(self) -> None:
        """T22: the tool's hook, then the global one, get the object that the tool raised."""
        seen: list[tuple[str, Any]] = []

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append(("post", result))
            return result

        async def global_post(ctx: ToolContext, name: str, result: Any) -> Any:
            seen.append((name, result))
            return result

        toolset = toolset_of(
            Fragile, post_hooks={"fragile": post}, global_hooks=GlobalHooks(post=global_post)
        )
        with pytest.raises(Boom) as caught:
            await toolset.call_tool("fragile", {})

        assert seen == [("post", Fragile.boom), ("fragile", Fragile.boom)]
        assert caught.value is Fragile.boom

    @pytest.mark.parametrize("has_hook", [True, False])
    async def test_the_traceback_leads_to_the_tool(self, has_hook: bool) -> None:
        """T24: what is raised still shows the line of the tool that failed."""

        async def post(ctx: ToolContext, result: Any) -> Any:
            return result

        class Deep(BaseTool):
            name = "deep"
            description = "Fails deep inside"

            async def call(self, ctx: ToolContext) -> str:
                raise Boom("deep")

        toolset = toolset_of(Deep, post_hooks={"deep": post} if has_hook else None)
        with pytest.raises(Boom) as caught:
            await toolset.call_tool("deep", {})

        last = traceback.extract_tb(caught.value.__traceback__)[-1]
        assert (last.filename, last.name) == (__file__, "call")

    async def test_a_hook_may_exchange_the_exception(self) -> None:
        """T24: another exception in place of the first is what is raised."""

        class Friendly(Exception):
            pass

        async def post(ctx: ToolContext, result: Any) -> Any:
            return Friendly(f"sorry: {result}")

        toolset = toolset_of(Fragile, post_hooks={"fragile": post})

        with pytest.raises(Friendly, match="sorry: broken"):
            await toolset.call_tool("fragile", {})

    async def test_a_failure_is_data_for_those_who_do_not_want_exceptions(self) -> None:
        """T24: `call` says the same as `call_tool` without raising."""
        outcome = await toolset_of(Fragile).call("fragile", {})

        assert outcome.error is Fragile.boom
        assert outcome.failure is not None
        assert (outcome.failure.kind, outcome.failure.error_type) == ("tool_error", "Boom")
        assert outcome.text == "Boom: broken"

    async def test_an_exception_that_a_tool_returns_is_a_value(self) -> None:
        """T31: only raising makes a failure of it; here it is a value that is not JSON."""
        seen: list[Any] = []

        class Giving(BaseTool):
            name = "giving"
            description = "Returns an exception"

            async def call(self, ctx: ToolContext) -> Any:
                return Fragile.boom

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append(result)
            return result

        outcome = await toolset_of(Giving, post_hooks={"giving": post}).call("giving", {})

        assert seen == [Fragile.boom]
        assert outcome.error is None
        assert outcome.failure is not None
        assert outcome.failure.kind == "invalid_result"
