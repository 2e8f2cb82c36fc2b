"""Which tool a call means: the tools of this turn, by name."""

from typing import Any

import pytest

from tests.calls.runs import failure, found, invoked, kinds, run
from toolcrib import Executor, Hooks, HostedTool, Session, Tool, ToolContext, tool
from toolcrib.errors import DuplicateTool, InvalidTool
from toolcrib.ledger.events import ToolsChanged, TurnStarted
from toolcrib.testing import Recorder


def greeter(word: str, version: str = "1.0.0", name: str = "greet") -> Tool[Any, Any]:
    async def greet() -> str:
        """Greet."""
        return word

    return tool(name=name, version=version, description=f"Say {word}.")(greet).tool


async def said(executor: Executor, name: str = "greet") -> str:
    return (await executor.call(name)).text


class TestUnknown:
    async def test_an_unknown_tool_is_not_found(self) -> None:
        """R15: a call of a tool that is not there is a structured result, not a crash, and names
        what there is.
        """
        session = Session()
        executor = Executor(session, [greeter("hi"), greeter("ho", name="shout")])

        outcome = await executor.call("great", {"x": 1})

        assert failure(outcome) == "not_found"
        assert outcome.text == (
            "There is no tool named 'great'; did you mean 'greet'? The tools are: greet, shout."
        )
        (ended,) = invoked(session)
        assert (ended.name, ended.tool, ended.params) == ("great", None, None)
        assert ended.arguments_digest

    async def test_a_name_like_no_other_suggests_nothing(self) -> None:
        """A guess that is far off would send the model to the wrong tool."""
        outcome = await Executor(Session(), [greeter("hi")]).call("delete_everything")

        assert outcome.text == "There is no tool named 'delete_everything'. The tools are: greet."

    async def test_without_tools_it_says_so(self) -> None:
        """An empty session says that it is empty."""
        outcome = await Executor(Session()).call("greet")

        assert outcome.text.endswith("this session has no tools.")

    async def test_a_name_that_cannot_be_encoded_is_not_found_like_others(self) -> None:
        """R21: a name made of nonsense is recorded, and the ledger stays readable."""
        session = Session()

        outcome = await Executor(session).call("gr\udce9et")

        assert failure(outcome) == "not_found"
        assert invoked(session)[0].name == "gr\\udce9et"


class TestRegistering:
    async def test_two_tools_of_one_name_are_refused(self) -> None:
        """T11, R25: a name means one tool, from the start and later."""
        with pytest.raises(DuplicateTool, match="'greet'"):
            Executor(Session(), [greeter("hi"), greeter("ho")])
        executor = Executor(Session(), [greeter("hi")])

        with pytest.raises(DuplicateTool, match="'greet'"):
            executor.register(greeter("ho"))

        assert await said(executor) == "hi"

    async def test_what_is_no_tool_is_refused(self) -> None:
        """A plain function is not a tool; the message says how to make it one."""
        with pytest.raises(InvalidTool, match="@tool"):
            Executor(Session()).register(lambda: "hi")

    async def test_outside_a_turn_changes_show_at_once(self) -> None:
        """Without a turn there is nothing to keep stable."""
        executor = Executor(Session())

        executor.register(greeter("hi"))
        assert await said(executor) == "hi"
        executor.replace(greeter("ho"))
        assert await said(executor) == "ho"
        assert executor.unregister("greet")
        assert failure(await executor.call("greet")) == "not_found"

    async def test_global_hooks_run_around_tools_that_come_later(self) -> None:
        """T15: a hook around every tool is around a new one, too."""
        seen: list[str] = []

        async def watch(_: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            seen.append(name)
            return arguments

        executor = Executor(Session(), hooks=Hooks(global_pre=watch))
        executor.register(greeter("hi"))
        await executor.call("greet")

        assert seen == ["greet"]

    async def test_unregistering_what_is_not_there_changes_nothing(self) -> None:
        """R9: taking away twice is no error, and says that there was nothing."""
        session = Session()
        executor = Executor(session, [greeter("hi")])
        declared = executor.declarations()

        assert not executor.unregister("other")

        assert executor.declarations() is declared
        assert kinds(session) == ["session.opened"]


class TestTurn:
    async def test_an_added_tool_shows_in_the_next_turn(self) -> None:
        """R15, R50: the model's tools stay as they are while a turn lasts."""
        executor = Executor(Session(), [greeter("hi")])

        with executor.turn():
            executor.register(greeter("ho", name="shout"))
            assert list(executor.tools) == ["greet"]
            assert failure(await executor.call("shout")) == "not_found"
        with executor.turn():
            assert list(executor.tools) == ["greet", "shout"]
            assert await said(executor, "shout") == "ho"

    async def test_a_replaced_tool_shows_in_the_next_turn(self) -> None:
        """R50: replacing takes effect in the next turn; records say which version ran."""
        session = Session()
        executor = Executor(session, [greeter("hi", "1.0.0")])

        with executor.turn():
            executor.replace(greeter("ho", "2.0.0"))
            assert await said(executor) == "hi"
        with executor.turn():
            assert await said(executor) == "ho"

        assert [ended.tool and ended.tool.version for ended in invoked(session)] == [
            "1.0.0",
            "2.0.0",
        ]

    async def test_a_removed_tool_is_gone_at_once(self) -> None:
        """R15: what is taken away cannot be called any more, turn or not."""
        executor = Executor(Session(), [greeter("hi")])

        with executor.turn():
            assert len(executor.declarations()) == 1
            executor.unregister("greet")
            assert executor.declarations() == ()
            assert failure(await executor.call("greet")) == "not_found"

    async def test_a_tool_removed_and_added_again_waits_for_the_next_turn(self) -> None:
        """R50: coming back is an addition."""
        executor = Executor(Session(), [greeter("hi")])

        with executor.turn():
            executor.unregister("greet")
            executor.register(greeter("ho"))
            assert failure(await executor.call("greet")) == "not_found"
        with executor.turn():
            assert await said(executor) == "ho"

    async def test_a_turn_within_a_turn_keeps_the_tools(self) -> None:
        """C8, R50: a prompt that a tool evaluates does not change the tools of the turn it is in,
        neither when it begins nor when it ends.
        """
        executor = Executor(Session(), [greeter("hi")])

        with executor.turn():
            executor.register(greeter("ho", name="shout"))
            with executor.turn():
                assert list(executor.tools) == ["greet"]
            assert list(executor.tools) == ["greet"]
            executor.register(greeter("hu", name="whisper"))
            assert list(executor.tools) == ["greet"]
        assert list(executor.tools) == ["greet", "shout", "whisper"]

    async def test_a_call_in_flight_completes(self) -> None:
        """R15: a tool that is taken away while it runs still gives its result."""

        @tool
        async def leave() -> str:
            """Take this tool away."""
            executor.unregister("leave")
            return "done"

        executor = Executor(Session(), [leave])

        assert await said(executor, "leave") == "done"
        assert failure(await executor.call("leave")) == "not_found"

    async def test_turns_are_counted_and_recorded(self) -> None:
        """R46: every record says in which turn it happened."""
        session = Session()
        executor = Executor(session, [greeter("hi")])

        await executor.call("greet")
        with executor.turn() as first:
            await executor.call("greet")
        with executor.turn() as second:
            await executor.call("greet")

        assert (first, second) == (1, 2)
        assert [event.turn for event in found(session, TurnStarted)] == [1, 2]
        assert [ended.turn for ended in invoked(session)] == [0, 1, 2]

    async def test_the_turn_is_in_the_context(self) -> None:
        """A handler can see which turn it serves."""

        @tool
        async def look(ctx: ToolContext) -> int:
            """Which turn?"""
            return ctx.turn

        executor = Executor(Session(), [look])
        with executor.turn() as turn:
            assert (await executor.call("look")).value == turn


class TestChangedEvents:
    async def test_every_change_is_one_event(self) -> None:
        """R15, R50: `tools.changed` names the tool and its old and new version, live and in the
        ledger.
        """
        session = Session()
        heard = Recorder(session.bus)
        executor = Executor(session)

        executor.register(greeter("hi", "1.0.0"))
        executor.replace(greeter("ho", "2.0.0"))
        executor.unregister("greet")

        changes = found(session, ToolsChanged)
        assert changes == heard.of(ToolsChanged)
        versions = [
            (change.name, change.old and change.old.version, change.new and change.new.version)
            for change in changes
        ]
        assert versions == [
            ("greet", None, "1.0.0"),
            ("greet", "1.0.0", "2.0.0"),
            ("greet", "2.0.0", None),
        ]

    async def test_a_change_is_told_when_it_is_made(self) -> None:
        """R50: operators hear of a change at once, also when the model sees it a turn later."""
        session = Session()
        executor = Executor(session)

        with executor.turn():
            executor.register(greeter("hi"))
            assert len(found(session, ToolsChanged)) == 1


class TestDeclarations:
    async def test_the_model_is_told_name_description_and_schema(self) -> None:
        """What a model reads of a tool, in the order the tools were registered."""

        @tool(deprecated="use `sum`")
        async def add(a: int, b: int = 0) -> int:
            """Add numbers."""
            return a + b

        first, second = Executor(Session(), [add, greeter("hi")]).declarations()

        assert (first.name, second.name) == ("add", "greet")
        assert first.description == "Add numbers.\n\nDeprecated: use `sum`"
        assert first.parameters["required"] == ["a"]

    async def test_declarations_are_the_same_object_until_tools_change(self) -> None:
        """R10: an unchanged prompt prefix keeps providers' caches warm."""
        executor = Executor(Session(), [greeter("hi")])
        before = executor.declarations()

        with executor.turn():
            assert executor.declarations() is before
            executor.register(greeter("ho", name="shout"))
            assert executor.declarations() is before

        assert len(executor.declarations()) == 2

    async def test_a_hosted_tool_cannot_be_called_from_here(self) -> None:
        """H45: there is no local fallback for what the provider runs."""
        from toolcrib.tools.web_search import web_search_tool

        hosted: HostedTool[Any] = web_search_tool()

        assert (await run(hosted)).failure == "unavailable"
