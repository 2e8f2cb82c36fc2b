"""Hooks around a call: their order, how they are checked, and what pre hooks may return."""

import asyncio
import itertools
from typing import Any

import pytest

from tests.calls.hooked_executor import Bench
from toolcrib import Answer, Executor, Hooks, Refuse, Session, ToolContext, tool
from toolcrib.errors import ApprovalRequired, HookFailed, InvalidHooks
from toolcrib.failures import Fault

Arguments = dict[str, Any]


async def same(ctx: ToolContext, shown: Any) -> Any:
    return shown


class TestOrder:
    def trail(self, places: tuple[str, ...]) -> list[str]:
        """Which of the hooks at `places`, and the tool, ran in what order."""
        seen: list[str] = []

        async def global_pre(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
            seen.append(f"global_pre {name}")
            return args

        async def pre(ctx: ToolContext, args: Arguments) -> Arguments:
            seen.append("pre")
            return args

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append("post")
            return result

        async def global_post(ctx: ToolContext, name: str, result: Any) -> Any:
            seen.append(f"global_post {name}")
            return result

        @tool
        async def echo(text: str) -> str:
            """Say it again."""
            seen.append("tool")
            return text

        hooks: dict[str, Any] = {
            "global_pre": global_pre,
            "pre": {"echo": pre},
            "post": {"echo": post},
            "global_post": global_post,
        }
        chosen = Hooks(**{place: hooks[place] for place in places})
        executor = Executor(Session(), [echo], hooks=chosen)
        asyncio.run(executor.call("echo", {"text": "x"}))
        return seen

    def test_hooks_run_in_one_order(self) -> None:
        """T15, T16: global pre, the tool's pre, the tool, its post, global post; global ones are
        told the tool's name.
        """
        assert self.trail(("global_pre", "pre", "post", "global_post")) == [
            "global_pre echo",
            "pre",
            "tool",
            "post",
            "global_post echo",
        ]

    @pytest.mark.parametrize("count", range(4))
    def test_a_missing_hook_changes_nothing_for_the_others(self, count: int) -> None:
        """T19: every hook is optional; those that are there keep their order."""
        everything = ("global_pre", "pre", "tool", "post", "global_post")
        hooks = tuple(place for place in everything if place != "tool")

        for places in itertools.combinations(hooks, count):
            expected = [place for place in everything if place in (*places, "tool")]
            assert [step.split()[0] for step in self.trail(places)] == expected

    async def test_arguments_pass_from_hook_to_hook_to_tool(self) -> None:
        """T17: the tool's hook gets what the global one returned, the tool what its own did."""
        seen: list[Arguments] = []

        async def global_pre(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
            return {"text": args["text"] + "1"}

        async def pre(ctx: ToolContext, args: Arguments) -> Arguments:
            seen.append(args)
            return {"text": args["text"] + "2"}

        bench = Bench(global_pre=global_pre, pre={"echo": pre})
        await bench.call("0")

        assert seen == [{"text": "01"}]
        assert bench.ran == ["012"]
        assert bench.recorded == {"text": "012"}

    async def test_the_result_passes_from_hook_to_hook_to_caller(self) -> None:
        """T18: the global hook gets what the tool's returned, the caller what the global did."""
        seen: list[str] = []

        async def post(ctx: ToolContext, result: str) -> str:
            return result + "1"

        async def global_post(ctx: ToolContext, name: str, result: str) -> str:
            seen.append(result)
            return result + "2"

        bench = Bench(post={"echo": post}, global_post=global_post)
        outcome = await bench.call("0")

        assert seen == ["01"]
        assert (outcome.value, outcome.text) == ("012", "012")

    async def test_hooks_of_one_tool_do_not_fire_for_another(self) -> None:
        """T12: hooks by name are for that tool alone."""

        async def fail(ctx: ToolContext, shown: Any) -> Any:
            raise AssertionError("this hook is of another tool")

        outcome = await Bench(pre={"other": fail}, post={"other": fail}).call()

        assert outcome.ok

    async def test_hooks_and_tool_share_one_context(self) -> None:
        """What a pre hook leaves in the context is there for the tool and the post hooks."""
        contexts: list[ToolContext] = []

        async def note(ctx: ToolContext, *shown: Any) -> Any:
            contexts.append(ctx)
            return shown[-1]

        @tool
        async def look(ctx: ToolContext) -> None:
            """Look."""
            contexts.append(ctx)

        hooks = Hooks(note, note, {"look": note}, {"look": note})
        await Executor(Session(), [look], hooks=hooks).call("look", call_id="c1")

        assert len(contexts) == 5
        assert all(found is contexts[0] for found in contexts)
        assert (contexts[0].call_id, contexts[0].tool_name) == ("c1", "look")

    async def test_a_hook_may_be_an_object_that_is_empty(self) -> None:
        """A callable object runs as a hook whatever its truth value."""

        class Log(list[str]):
            async def __call__(self, ctx: ToolContext, shown: Any) -> Any:
                self.append("ran")
                return shown

        pre, post = Log(), Log()
        await Bench(pre={"echo": pre}, post={"echo": post}).call()

        assert (pre, post) == (["ran"], ["ran"])


class TestChecking:
    @pytest.mark.parametrize("when", ["pre", "post"])
    def test_hooks_of_unknown_tools_are_refused(self, when: str) -> None:
        """T12: a misspelt name would silently guard nothing; the message lists the known ones."""
        with pytest.raises(InvalidHooks) as caught:
            Bench(**{when: {"ehco": same}})

        assert (
            str(caught.value) == f"{when} hook for unknown tool 'ehco'; the tools are: echo, other"
        )

    def test_an_executor_without_tools_knows_none(self) -> None:
        """T12: the message says so when there is nothing to choose from."""
        with pytest.raises(InvalidHooks, match=r"the tools are: none$"):
            Executor(Session(), [], hooks=Hooks(pre={"echo": same}))

    @pytest.mark.parametrize(
        ("hooks", "what"),
        [
            ({"pre": {"echo": "x"}}, "the pre hook of 'echo'"),
            ({"post": {"echo": "x"}}, "the post hook of 'echo'"),
            ({"global_pre": "x"}, "the global pre hook"),
            ({"global_post": "x"}, "the global post hook"),
        ],
    )
    def test_what_cannot_be_called_is_refused(self, hooks: dict[str, Any], what: str) -> None:
        """A hook that could only fail at the first call fails at once, and the message names it."""
        with pytest.raises(InvalidHooks) as caught:
            Bench(**hooks)

        assert str(caught.value) == f"{what} is not callable: str; give an async function"


class TestPreHookReplies:
    @pytest.mark.parametrize("reply", [None, "text", ["text"], 1, ("text", "x")])
    async def test_anything_but_arguments_is_a_fault(self, reply: object) -> None:
        """T16: a pre hook that forgets to return its arguments fails the call, naming itself, and
        the tool does not run.
        """

        async def forgetful(ctx: ToolContext, args: Arguments) -> Any:
            return reply

        bench = Bench(pre={"echo": forgetful})
        outcome = await bench.call()

        assert isinstance(outcome.error, HookFailed)
        assert str(outcome.error) == (
            f"pre hook {forgetful.__qualname__} of 'echo' returned {type(reply).__name__}; "
            "return the arguments (a dict), Answer(value) or Refuse(reason)"
        )
        assert bench.ran == []

    async def test_a_global_hook_is_held_to_the_same(self) -> None:
        """T16: a wrong reply of the global hook stops the tool's own hook, too."""
        seen: list[str] = []

        async def forgetful(ctx: ToolContext, name: str, args: Arguments) -> None:
            return None

        async def pre(ctx: ToolContext, args: Arguments) -> Arguments:
            seen.append("pre")
            return args

        bench = Bench(global_pre=forgetful, pre={"echo": pre})
        outcome = await bench.call()

        assert isinstance(outcome.error, HookFailed)
        assert str(outcome.error).startswith(f"pre hook {forgetful.__qualname__} of 'echo' ")
        assert (seen, bench.ran) == ([], [])

    async def test_a_plain_function_is_a_fault(self) -> None:
        """T16: hooks are async; one that is not is named, and the tool does not run."""

        def plain(ctx: ToolContext, args: Arguments) -> Arguments:
            return args

        bench = Bench(pre={"echo": plain})
        outcome = await bench.call()

        assert str(outcome.error) == (
            f"hook {plain.__qualname__} returned dict without being awaited; "
            "hooks are async functions: write `async def`"
        )
        assert isinstance(outcome.error, HookFailed)
        assert bench.ran == []

    @pytest.mark.parametrize("value", [object(), "\ud800"])
    async def test_arguments_that_json_cannot_hold_are_a_fault(self, value: object) -> None:
        """What no model could have sent does not run."""

        class Odd:
            async def __call__(self, ctx: ToolContext, args: Arguments) -> Arguments:
                return {"text": value}

        bench = Bench(pre={"echo": Odd()})
        outcome = await bench.call()

        assert isinstance(outcome.error, HookFailed)
        assert str(outcome.error).startswith(
            f"pre hook {Odd.__qualname__} of 'echo' returned arguments that are not JSON: "
        )
        assert bench.ran == []

    async def test_rewritten_arguments_are_validated_again(self) -> None:
        """T4: a hook cannot hand the tool what the model could not; nothing runs."""
        seen: list[Any] = []

        async def spoil(ctx: ToolContext, args: Arguments) -> Arguments:
            return {"text": 1}

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append(result)
            return result

        bench = Bench(pre={"echo": spoil}, post={"echo": post})
        outcome = await bench.call()

        assert outcome.failure is not None
        assert outcome.failure.kind == "invalid_arguments"
        assert outcome.failure.faults == (Fault("/text", "Input should be a valid string"),)
        assert outcome.text.startswith("The arguments of `echo` are not valid after its pre hooks:")
        assert (bench.ran, seen) == ([], [])

    async def test_an_answer_stands_in_the_tools_place(self) -> None:
        """The tool and later pre hooks do not run; the post hooks do."""
        seen: list[str] = []

        async def answer(ctx: ToolContext, name: str, args: Arguments) -> Answer:
            return Answer(None)

        async def pre(ctx: ToolContext, args: Arguments) -> Arguments:
            seen.append("pre")
            return args

        async def post(ctx: ToolContext, result: Any) -> Any:
            seen.append(f"post {result}")
            return "cached"

        bench = Bench(global_pre=answer, pre={"echo": pre}, post={"echo": post})
        outcome = await bench.call()

        assert (outcome.ok, outcome.value) == (True, "cached")
        assert (seen, bench.ran) == (["post None"], [])

    @pytest.mark.parametrize(
        ("reason", "text"), [("Not today.", "Not today."), ("", "A hook refused the call.")]
    )
    async def test_a_refusal_ends_the_call(self, reason: str, text: str) -> None:
        """Neither the tool nor a post hook runs; the model reads the reason."""

        async def refuse(ctx: ToolContext, args: Arguments) -> Refuse:
            return Refuse(reason)

        async def recover(ctx: ToolContext, result: Any) -> str:
            return "recovered"

        bench = Bench(pre={"echo": refuse}, post={"echo": recover})
        outcome = await bench.call()

        assert outcome.failure is not None
        assert (outcome.failure.kind, outcome.text) == ("not_permitted", text)
        assert bench.ran == []


class TestCombined:
    """Several sets of hooks are one: the first is the outermost."""

    def combined(self, *listed: Hooks) -> Any:
        @tool
        async def echo(text: str) -> str:
            """Say it again."""
            return text

        executor = Executor(Session(), [echo], hooks=Hooks.combined(listed))
        return asyncio.run(executor.call("echo", {"text": "x"}))

    def adding(self, letter: str) -> Hooks:
        async def pre(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
            return {"text": args["text"] + letter}

        async def post(ctx: ToolContext, shown: str) -> str:
            return f"{shown}-{letter}"

        return Hooks(global_pre=pre, post={"echo": post})

    def test_they_run_in_turn(self) -> None:
        """What one rewrites is what the next one sees."""
        assert self.combined(self.adding("a"), self.adding("b")).text == "xab-b-a"

    def test_one_refusal_is_enough(self) -> None:
        """The others do not soften it."""

        async def refuse(ctx: ToolContext, name: str, args: Arguments) -> Refuse:
            return Refuse("no")

        outcome = self.combined(self.adding("a"), Hooks(global_pre=refuse), self.adding("b"))
        assert outcome.failure.kind == "not_permitted"

    def test_an_approval_that_one_asks_for_is_asked_for(self) -> None:
        """Also when another one runs after it."""

        async def ask(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
            raise ApprovalRequired({"why": "sure?"})

        assert self.combined(Hooks(global_pre=ask), Hooks(global_pre=keep)).status == "waiting"

    def test_nobody_approves_what_will_not_run(self) -> None:
        """One asks and another rewrites: the person sees the arguments that will run."""

        async def ask(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
            raise ApprovalRequired({})

        rewriting = Hooks(global_pre=self.adding("b").global_pre)
        outcome = self.combined(Hooks(global_pre=ask), rewriting)
        assert outcome.status == "waiting"
        assert outcome.approval.arguments == {"text": "xb"}

    def test_each_keeps_its_time_limit(self) -> None:
        """A slow hook of one set does not get the time of another."""

        async def slow(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
            await asyncio.Event().wait()
            return args

        limited = Hooks(global_pre=slow, timeout=0.01)
        assert self.combined(Hooks(global_pre=keep), limited).status == "failed"

    def test_a_failed_post_hook_is_seen_by_the_outer_one(self) -> None:
        """As within one set of hooks."""
        seen: list[object] = []

        async def fail(ctx: ToolContext, name: str, shown: Any) -> Any:
            raise ValueError("lost")

        async def look(ctx: ToolContext, name: str, shown: Any) -> Any:
            seen.append(shown)
            return shown

        outcome = self.combined(Hooks(global_post=look), Hooks(global_post=fail))
        assert outcome.status == "failed"
        assert isinstance(seen[0], ValueError)


async def keep(ctx: ToolContext, name: str, args: Arguments) -> Arguments:
    return args
