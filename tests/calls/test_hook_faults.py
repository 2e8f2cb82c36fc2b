"""Hooks that fail, are late, or change things behind the executor's back."""

import asyncio
from typing import Any

import pytest

from tests.calls.hooked_executor import Bench
from toolcrib import Executor, Hooks, Session, ToolContext, ToolInvoked, tool
from toolcrib.errors import HookFailed, InvalidHooks, ToolTimeout
from toolcrib.testing import Recorder, run_in_virtual_time

Arguments = dict[str, Any]


class Boom(Exception):
    pass


class TestFailing:
    @pytest.mark.parametrize("place", ["global_pre", "pre"])
    async def test_the_exception_of_a_pre_hook_is_the_result(self, place: str) -> None:
        """T29: the tool does not run, later pre hooks neither, and the post hooks see it."""
        boom = Boom("pre")
        seen: list[Any] = []

        async def fail(ctx: ToolContext, *shown: Any) -> Arguments:
            raise boom

        async def late(ctx: ToolContext, args: Arguments) -> Arguments:
            seen.append("late")
            return args

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append(result)
            return result

        async def global_post(ctx: ToolContext, name: str, result: Any) -> Any:
            seen.append(result)
            return result

        pre: dict[str, Any] = {
            "global_pre": {"global_pre": fail, "pre": {"echo": late}},
            "pre": {"pre": {"echo": fail}},
        }
        bench = Bench(**pre[place], post={"echo": post}, global_post=global_post)
        outcome = await bench.call()

        assert (seen, bench.ran) == ([boom, boom], [])
        assert outcome.error is boom
        assert outcome.failure is not None
        assert (outcome.failure.kind, outcome.text) == ("tool_error", "Boom: pre")

    async def test_a_post_hook_may_recover_from_a_pre_hook(self) -> None:
        """T29: what a post hook returns stands, whoever failed before it."""

        async def fail(ctx: ToolContext, args: Arguments) -> Arguments:
            raise Boom

        async def recover(ctx: ToolContext, result: Any) -> str:
            return f"recovered from {type(result).__name__}"

        outcome = await Bench(pre={"echo": fail}, post={"echo": recover}).call()

        assert (outcome.ok, outcome.value) == (True, "recovered from Boom")

    async def test_the_exception_of_a_post_hook_goes_to_the_global_one(self) -> None:
        """T30: the global post hook still runs, with the new exception."""
        boom = Boom("post")
        seen: list[Any] = []

        async def fail(ctx: ToolContext, result: Any) -> Any:
            raise boom

        async def global_post(ctx: ToolContext, name: str, result: Any) -> Any:
            seen.append(result)
            return result

        bench = Bench(post={"echo": fail}, global_post=global_post)
        outcome = await bench.call()

        assert seen == [boom]
        assert outcome.error is boom
        assert bench.ran == ["hello"]

    async def test_the_exception_of_the_global_post_hook_is_the_result(self) -> None:
        """T30: nothing is after it; the call has failed."""

        async def fail(ctx: ToolContext, name: str, result: Any) -> Any:
            raise Boom("last")

        outcome = await Bench(global_post=fail).call()

        assert (outcome.ok, outcome.text) == (False, "Boom: last")

    @pytest.mark.parametrize("place", ["post", "global_post"])
    async def test_a_plain_function_is_no_post_hook(self, place: str) -> None:
        """T16: a post hook that is not async fails the call by name, and its value is not used."""

        def plain(ctx: ToolContext, *shown: Any) -> str:
            return "not awaited"

        hooks: dict[str, Any] = {"post": {"echo": plain}, "global_post": plain}
        outcome = await Bench(**{place: hooks[place]}).call()

        assert isinstance(outcome.error, HookFailed)
        assert str(outcome.error).startswith(f"hook {plain.__qualname__} returned str without")
        assert "not awaited" not in outcome.text


class TestExceptionsAsValues:
    """T31: an exception that a tool returned is a value; one that it raised is a failure."""

    def executor(self, post: Any) -> tuple[Executor, Boom]:
        boom = Boom("returned")

        @tool
        async def give() -> Any:
            """Give an exception, without raising it."""
            return boom

        return Executor(Session(), [give], hooks=Hooks(post={"give": post})), boom

    async def test_a_returned_exception_is_not_raised(self) -> None:
        """T31: passed on unchanged it stays a value, which JSON cannot hold."""
        seen: list[Any] = []

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append(result)
            return result

        executor, boom = self.executor(post)
        outcome = await executor.call("give")

        assert seen == [boom]
        assert outcome.error is None
        assert outcome.failure is not None
        assert outcome.failure.kind == "invalid_result"

    async def test_a_returned_exception_that_a_hook_raises_is_a_failure(self) -> None:
        """T31: raising is what makes it one, even of the very same object."""

        async def post(ctx: ToolContext, result: Exception) -> Any:
            raise result

        executor, boom = self.executor(post)
        outcome = await executor.call("give")

        assert outcome.error is boom
        assert outcome.failure is not None
        assert outcome.failure.kind == "tool_error"

    async def test_another_exception_returned_by_a_hook_is_a_failure(self) -> None:
        """T24: a post hook fails a call by returning an exception of its own."""

        async def post(ctx: ToolContext, result: Any) -> Any:
            return Boom("mine")

        executor, _ = self.executor(post)
        outcome = await executor.call("give")

        assert (outcome.ok, outcome.text) == (False, "Boom: mine")


class TestTimeLimits:
    def test_a_pre_hook_that_takes_too_long_stops_the_call(self) -> None:
        """The limit binds each hook; the tool does not run and the model reads why."""

        async def slow(ctx: ToolContext, args: Arguments) -> Arguments:
            await asyncio.sleep(3600)
            return args

        async def scenario() -> float:
            bench = Bench(pre={"echo": slow}, timeout=2.5)
            loop = asyncio.get_running_loop()
            began = loop.time()
            outcome = await bench.call()
            assert isinstance(outcome.error, ToolTimeout)
            assert outcome.failure is not None
            assert outcome.failure.kind == "timeout"
            assert outcome.text == f"hook {slow.__qualname__} took longer than 2.5 s"
            assert bench.ran == []
            return loop.time() - began

        assert run_in_virtual_time(scenario()) == pytest.approx(2.5, abs=0.1)

    def test_each_hook_has_the_whole_limit(self) -> None:
        """Two hooks of two seconds each pass a limit of three; a post hook is bound by it too."""

        async def two(ctx: ToolContext, *shown: Any) -> Any:
            await asyncio.sleep(2)
            return shown[-1]

        async def four(ctx: ToolContext, *shown: Any) -> Any:
            await asyncio.sleep(4)
            return shown[-1]

        async def scenario() -> None:
            quick = await Bench(global_pre=two, pre={"echo": two}, timeout=3).call()
            slow = await Bench(global_post=four, timeout=3).call()
            assert quick.ok
            assert isinstance(slow.error, ToolTimeout)

        run_in_virtual_time(scenario())

    def test_without_a_limit_a_hook_may_take_its_time(self) -> None:
        """No limit is the default."""

        async def slow(ctx: ToolContext, args: Arguments) -> Arguments:
            await asyncio.sleep(3600)
            return args

        assert run_in_virtual_time(Bench(pre={"echo": slow}).call()).ok

    def test_a_hooks_own_timeout_error_is_its_own(self) -> None:
        """What a hook raises within its limit is passed on as it is."""

        async def impatient(ctx: ToolContext, args: Arguments) -> Arguments:
            async with asyncio.timeout(1):
                await asyncio.sleep(3600)
            return args

        outcome = run_in_virtual_time(Bench(pre={"echo": impatient}, timeout=5).call())

        assert type(outcome.error) is TimeoutError
        assert outcome.failure is not None
        assert outcome.failure.kind == "tool_error"

    def test_a_hook_that_swallows_its_cancellation_is_late_all_the_same(self) -> None:
        """A late reply is not a reply: the tool does not run."""

        async def stubborn(ctx: ToolContext, args: Arguments) -> Arguments:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                return args
            return args

        bench = Bench(pre={"echo": stubborn}, timeout=1)
        outcome = run_in_virtual_time(bench.call())

        assert isinstance(outcome.error, ToolTimeout)
        assert bench.ran == []

    async def test_a_hook_that_blocks_the_loop_is_late_all_the_same(self) -> None:
        """The loop cannot interrupt it, so its reply is looked at for being late."""

        async def blocking(ctx: ToolContext, args: Arguments) -> Arguments:
            loop = asyncio.get_running_loop()
            until = loop.time() + 0.002
            while loop.time() < until:
                pass
            return args

        bench = Bench(pre={"echo": blocking}, timeout=0.001)
        outcome = await bench.call()

        assert isinstance(outcome.error, ToolTimeout)
        assert bench.ran == []

    @pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
    def test_a_limit_that_is_none_is_refused(self, timeout: float) -> None:
        """No limit is None; zero would stop every hook and infinity none."""
        with pytest.raises(InvalidHooks, match="must be a finite number of seconds above 0, not"):
            Bench(timeout=timeout)


class TestIsolation:
    async def test_what_a_hook_changes_after_it_returned_counts_for_nothing(self) -> None:
        """A hook that keeps its arguments cannot change the call behind the next hook's back."""
        kept: list[Arguments] = []

        async def keep(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
            kept.append(args)
            return args

        async def pre(ctx: ToolContext, args: Arguments) -> Arguments:
            kept[0]["text"] = "changed"
            kept.append(args)
            return args

        async def post(ctx: ToolContext, result: str) -> str:
            kept[1]["text"] = "changed"
            return result

        bench = Bench(global_pre=keep, pre={"echo": pre}, post={"echo": post})
        asked = {"text": "hello"}
        await bench.executor.call("echo", asked)

        assert asked == {"text": "hello"}
        assert bench.ran == ["hello"]
        assert bench.recorded == {"text": "hello"}

    async def test_a_value_that_a_failed_hook_saw_is_shown_to_nobody(self) -> None:
        """A hook that was to hide something and failed must not leave it in outcome or event."""

        async def hide(ctx: ToolContext, result: str) -> str:
            raise ValueError("cannot hide it")

        bench = Bench(post={"echo": hide})
        recorder = Recorder(bench.session.bus)
        outcome = await bench.call("secret")

        (event,) = recorder.of(ToolInvoked)
        assert (outcome.ok, outcome.value) == (False, None)
        assert (event.success, event.value) == (False, None)
        assert "secret" not in outcome.text
