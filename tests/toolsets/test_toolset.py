"""Toolset: which tools it offers, what it tells the model, and how its calls are kept apart."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tests.toolsets.samples import ReadFile, Shell, WriteFile, toolset_of
from toolcrib import Approve, CallFailed, Policy, Rule, ToolContext, tool
from toolcrib.context import AgentContext
from toolcrib.errors import DuplicateTool, InvalidHooks, InvalidTool, UsageError
from toolcrib.toolsets import BaseTool, GlobalHooks, HookableToolsetTool, Toolset

Arguments = dict[str, Any]


class Compiler(BaseTool):
    name = "compiler"
    description = "Needs a compiler that is not installed"
    is_installed = False

    def is_available(self) -> bool:
        return self.is_installed

    def get_instruction(self, ctx: ToolContext) -> str | None:
        return "Compile before you run."

    async def call(self, ctx: ToolContext) -> str:
        return "compiled"


class Guided(BaseTool):
    name = "guided"
    description = "Tells how to use it"

    def get_instruction(self, ctx: ToolContext) -> str | None:
        return f"You work in {ctx.cwd} for {ctx.metadata['user']}."

    async def call(self, ctx: ToolContext) -> None: ...


async def same(ctx: ToolContext, shown: Any) -> Any:
    return shown


class TestConstruction:
    async def test_a_toolset_takes_context_classes_and_hooks(self, tmp_path: Path) -> None:
        """T10: the hooks given by name and the global ones are those that run."""
        seen: list[str] = []

        async def pre(ctx: ToolContext, args: Arguments) -> Arguments:
            seen.append("pre")
            return args

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append("post")
            return result

        async def global_pre(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
            seen.append(f"global_pre {name}")
            return args

        async def global_post(ctx: ToolContext, name: str, result: Any) -> Any:
            seen.append(f"global_post {name}")
            return result

        ctx = AgentContext()
        toolset = Toolset(
            ctx,
            tools=[ReadFile, WriteFile],
            pre_hooks={"read_file": pre},
            post_hooks={"write_file": post},
            global_hooks=GlobalHooks(pre=global_pre, post=global_post),
        )
        path = str(tmp_path / "a")
        await toolset.call_tool("write_file", {"path": path, "text": "hi"})
        written = list(seen)
        seen.clear()

        assert await toolset.call_tool("read_file", {"path": path}) == "hi"
        assert written == ["global_pre write_file", "post", "global_post write_file"]
        assert seen == ["global_pre read_file", "pre", "global_post read_file"]
        assert toolset.ctx is ctx
        assert list(await toolset.get_tools()) == ["read_file", "write_file"]

    def test_two_tools_of_one_name_are_refused(self) -> None:
        """T11: the error comes at construction and names the tool."""

        class Impostor(WriteFile):
            name = "read_file"

        with pytest.raises(DuplicateTool) as caught:
            toolset_of(ReadFile, Impostor)

        assert str(caught.value) == "two tools are named 'read_file'; names must be unique"

    @pytest.mark.parametrize("declared", ["read_file", str, len])
    def test_anything_but_a_tool_is_refused(self, declared: Any) -> None:
        """T10: a name, another class or a plain function is a slip that the message explains."""
        with pytest.raises(InvalidTool, match=r"is not a tool.* a toolset takes BaseTool classes"):
            toolset_of(declared)

    async def test_functions_and_instances_are_tools_too(self, tmp_path: Path) -> None:
        """F2: `@tool` functions, sync and async, and instances run as classes do."""

        @tool
        async def shout(text: str, ctx: ToolContext) -> str:
            """Shout."""
            return f"{text.upper()} {ctx.tool_name}"

        @tool
        def whisper(text: str, times: int = 2) -> str:
            """Whisper."""
            return text.lower() * times

        toolset = Toolset(AgentContext(), [ReadFile(), shout, whisper])
        (tmp_path / "a").write_text("hi")

        assert await toolset.call_tool("read_file", {"path": str(tmp_path / "a")}) == "hi"
        assert await toolset.call_tool("shout", {"text": "a"}) == "A shout"
        assert await toolset.call_tool("whisper", {"text": "A"}) == "aa"

    async def test_an_override_runs_functions(self) -> None:
        """F2: `_call_tool_func` sees the arguments of a function and runs it."""

        class Doubling(Toolset):
            async def _call_tool_func(
                self, args: dict[str, Any], ctx: Any, tool: HookableToolsetTool
            ) -> Any:
                return 2 * await tool.call_func(args, ctx)

        @tool
        def one(add: int) -> int:
            """Count."""
            return 1 + add

        assert await Doubling(AgentContext(), [one]).call_tool("one", {"add": 2}) == 6

    def test_an_approval_list_with_a_misspelt_name_is_refused(self) -> None:
        """A name that is nearly that of a tool would leave the tool ungated."""
        ctx = AgentContext(need_user_approve_tools=["raed_file"])

        with pytest.raises(UsageError, match="'raed_file', which is no tool here; did you mean"):
            Toolset(ctx, [ReadFile, WriteFile])

    def test_an_approval_list_may_name_the_tool_of_another_toolset(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A name unlike all others is only logged: the other toolset may come later."""
        ctx = AgentContext(need_user_approve_tools=["launch"])

        Toolset(ctx, [ReadFile])

        assert "names 'launch', which is no tool here; the tools are: read_file" in caplog.text

    async def test_an_approval_list_knows_wildcards(self) -> None:
        """F14: "*" asks about every tool, as it does in a policy."""
        toolset = Toolset(AgentContext(need_user_approve_tools=["read_*"]), [ReadFile])

        outcome = await toolset.call("read_file", {"path": "a"})

        assert outcome.status == "waiting"

    @pytest.mark.parametrize("when", ["pre_hooks", "post_hooks"])
    def test_hooks_of_unknown_tools_are_refused(self, when: str) -> None:
        """T12: at construction, with the known names in the message."""
        with pytest.raises(InvalidHooks) as caught:
            toolset_of(WriteFile, ReadFile, **{when: {"red_file": same}})

        assert str(caught.value) == (
            f"{when[:-6]} hook for unknown tool 'red_file'; the tools are: read_file, write_file"
        )

    async def test_hooks_of_a_tool_that_is_not_available_are_taken(self) -> None:
        """T12: whether a dependency is installed must not decide whether the program starts."""
        hooks = {"compiler": same}
        toolset = toolset_of(ReadFile, Compiler, pre_hooks=hooks, post_hooks=hooks)

        assert list(await toolset.get_tools()) == ["read_file"]


class TestAvailability:
    async def test_an_unavailable_tool_is_left_out(self) -> None:
        """T5: neither listed nor callable."""
        toolset = toolset_of(ReadFile, Compiler)
        outcome = await toolset.call("compiler", {})

        assert list(await toolset.get_tools()) == ["read_file"]
        assert outcome.failure is not None
        assert outcome.failure.kind == "not_found"

    async def test_a_tool_that_becomes_available_is_listed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """T5, F9: it is asked each time, so a tool that was not there at first comes later."""
        toolset = toolset_of(ReadFile, Compiler)
        before = list(await toolset.get_tools())
        monkeypatch.setattr(Compiler, "is_installed", True)

        assert before == ["read_file"]
        assert list(await toolset.get_tools()) == ["read_file", "compiler"]
        assert await toolset.call_tool("compiler", {}) == "compiled"

    async def test_an_unavailable_tool_is_listed_on_demand(self) -> None:
        """T6: with `skip_unavailable=False` it is listed and can be called."""
        toolset = toolset_of(Compiler, skip_unavailable=False)

        assert list(await toolset.get_tools()) == ["compiler"]
        assert await toolset.call_tool("compiler", {}) == "compiled"

    async def test_only_available_tools_instruct(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """T8: an unavailable tool contributes nothing, even where it is listed."""
        toolset = toolset_of(Compiler, skip_unavailable=False)
        before = await toolset.get_instructions()
        monkeypatch.setattr(Compiler, "is_installed", True)

        assert before is None
        assert await toolset.get_instructions() == "Compile before you run."
        assert await toolset_of(Compiler).get_instructions() == "Compile before you run."


class TestInstructions:
    async def test_instructions_are_joined_in_order(self) -> None:
        """T7, T8: what the tools say, one paragraph each; None adds nothing."""

        class First(ReadFile):
            def get_instruction(self, ctx: ToolContext) -> str | None:
                return "First."

        class Second(WriteFile):
            def get_instruction(self, ctx: ToolContext) -> str | None:
                return "Second."

        toolset = toolset_of(First, Shell, Second)

        assert await toolset.get_instructions() == "First.\n\nSecond."

    async def test_no_instruction_is_none(self) -> None:
        """T8: None, not an empty text, when no tool contributes."""
        assert await toolset_of(ReadFile, WriteFile).get_instructions() is None

    async def test_an_instruction_gets_the_run_context(self) -> None:
        """T7: it is asked for at every run, with the context of that run."""
        toolset = toolset_of(Guided)
        one = ToolContext(session_id="s", cwd="/a", metadata={"user": "ada"})
        two = ToolContext(session_id="s", cwd="/b", metadata={"user": "bob"})

        assert await toolset.get_instructions(one) == "You work in /a for ada."
        assert await toolset.get_instructions(two) == "You work in /b for bob."

    async def test_without_a_run_context_the_session_gives_one(self) -> None:
        """T7: a tool never gets None for a context; it gets what its calls would get."""
        found: list[ToolContext] = []

        class Curious(ReadFile):
            def get_instruction(self, ctx: ToolContext) -> str | None:
                found.append(ctx)
                return None

        ctx = AgentContext(cwd="/a", environment={"K": "v"}, metadata={"user": "ada"})
        ctx.session.number_turns_after(3)
        await Toolset(ctx, [Curious]).get_instructions()

        (given,) = found
        session = ctx.session
        assert (given.session_id, given.cwd, given.turn) == (session.session_id, "/a", 3)
        assert (given.environment, given.metadata) == ({"K": "v"}, {"user": "ada"})
        assert (given.deps, given.session, given.bus) == (ctx, session, session.bus)
        given.environment["K"] = given.metadata["user"] = "changed"
        assert (session.environment, session.metadata) == ({"K": "v"}, {"user": "ada"})


class TestCalls:
    @pytest.mark.parametrize("raw", [{"path": 1}, {}, {"path": "a", "x": 1}, "[]", "{", b"null"])
    async def test_invalid_arguments_reach_neither_hooks_nor_tool(self, raw: Any) -> None:
        """T4: validation comes before everything else."""

        async def fail(*_: Any) -> Any:
            raise AssertionError("nothing may see these arguments")

        class Guarded(ReadFile):
            async def call(self, ctx: ToolContext, path: str) -> str:
                return await fail()

        toolset = toolset_of(
            Guarded,
            pre_hooks={"read_file": fail},
            post_hooks={"read_file": fail},
            global_hooks=GlobalHooks(fail, fail),
        )
        with pytest.raises(CallFailed) as caught:
            await toolset.call_tool("read_file", raw)

        assert caught.value.failure.kind == "invalid_arguments"

    async def test_a_policy_judges_every_call(self) -> None:
        """What a rule forbids does not run, listed or not."""
        policy = Policy((Rule("deny", tool="read_*", reason="No reading."), Rule("allow")))
        toolset = toolset_of(ReadFile, WriteFile, policy=policy)
        outcome = await toolset.call("read_file", {"path": "a"})

        assert outcome.failure is not None
        assert (outcome.failure.kind, outcome.text) == ("not_permitted", "No reading.")

    async def test_parallel_calls_of_one_tool_share_nothing(self) -> None:
        """T21: each call has its own arguments and context, in hooks and tool alike."""
        gate = asyncio.Event()
        seen: dict[str, list[Any]] = {}

        class Label(BaseTool):
            name = "label"
            description = "Return a label"

            async def call(self, ctx: ToolContext, labels: list[str]) -> list[str]:
                seen[ctx.call_id].append(ctx)
                await gate.wait()
                return [*labels, cast("str", ctx.metadata["label"])]

        async def pre(ctx: ToolContext, args: Arguments) -> Arguments:
            seen[ctx.call_id] = [ctx]
            args["labels"].append(ctx.call_id)
            ctx.metadata["label"] = ctx.call_id
            ctx.environment["label"] = ctx.call_id
            if len(seen) == 3:
                gate.set()
            await gate.wait()
            return args

        async def post(ctx: ToolContext, result: list[str]) -> list[str]:
            seen[ctx.call_id].append(ctx)
            return [*result, ctx.environment["label"]]

        toolset = toolset_of(Label, pre_hooks={"label": pre}, post_hooks={"label": post})
        shared: Arguments = {"labels": ["x"]}
        results = await asyncio.gather(
            *(toolset.call_tool("label", shared, call_id) for call_id in ("a", "b", "c"))
        )

        assert results == [["x", name, name, name] for name in ("a", "b", "c")]
        assert shared == {"labels": ["x"]}
        assert len({id(ctx) for found in seen.values() for ctx in found}) == 3
        assert toolset.ctx.session.metadata == {}
        assert toolset.ctx.session.environment == {}

    async def test_a_call_id_comes_from_the_context_or_as_it_is(self) -> None:
        """Any run context with a `tool_call_id` will do; without one each call gets its own id."""

        class WhoAmI(BaseTool):
            name = "whoami"
            description = "Say the call's id"

            async def call(self, ctx: ToolContext) -> str:
                return ctx.tool_call_id

        toolset = toolset_of(WhoAmI)
        given = ToolContext(session_id="s", cwd="/", call_id="mine")
        unbound = ToolContext(session_id="s", cwd="/")

        assert await toolset.call_tool("whoami", {}, given) == "mine"
        assert await toolset.call_tool("whoami", {}, "named") == "named"
        first = await toolset.call_tool("whoami", {}, unbound)
        second = await toolset.call_tool("whoami", {}, unbound)
        assert first
        assert second not in ("", first)

    async def test_resume_leaves_the_calls_of_other_toolsets_alone(self) -> None:
        """Two toolsets may share a session; each takes up its own calls."""
        ctx = AgentContext()
        ctx.need_user_approve_tools = ["guided", "shell"]
        ours, theirs = Toolset(ctx, [Guided]), Toolset(ctx, [Shell])
        await ours.call("guided", {}, "c1")
        await theirs.call("shell", {"command": "ls"}, "c2")
        await ctx.session.approvals.decide("c1", Approve(), by="ada")

        (outcome,) = await ours.resume()
        (waiting,) = await theirs.resume()

        assert (outcome.call_id, outcome.status) == ("c1", "completed")
        assert (waiting.call_id, waiting.status) == ("c2", "waiting")


@pytest.mark.parametrize("timeout", [0, -1, float("inf")])
def test_a_time_limit_that_is_none_is_refused(timeout: float) -> None:
    """T34: no limit is None, never 0."""
    with pytest.raises(UsageError, match="for no limit pass None"):
        toolset_of(ReadFile, timeout=timeout)
    with pytest.raises(UsageError, match="for no limit pass None"):
        toolset_of(ReadFile, hook_timeout=timeout)
    with pytest.raises(UsageError, match="for no limit pass None"):
        toolset_of(type("Limited", (ReadFile,), {"timeout": timeout}))
