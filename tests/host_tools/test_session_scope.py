"""Tools of some sessions only: by the session's id, by a factory, by a rule, by what it can do."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.host_tools.samples import Maker, context_for, define, echo, names, of_session
from toolcrib.errors import DuplicateTool, InvalidTool
from toolcrib.host_tools import HostToolRegistry, SessionHandler, ToolContext


@pytest.fixture
def registry() -> HostToolRegistry:
    return HostToolRegistry()


def tools_of(registry: HostToolRegistry, session_id: str, **options: Any) -> list[str]:
    return names(registry.create_session_tools(session_id, context_for(session_id), **options))


class TestById:
    async def test_only_its_session_sees_it(self, registry: HostToolRegistry) -> None:
        """R14: it is absent from every other session's tools and listings."""
        await registry.register(define("shared"))
        await registry.register(of_session("mine"), session_id="a")

        assert tools_of(registry, "a") == ["shared", "mine"]
        assert tools_of(registry, "b") == ["shared"]
        assert names(registry.list_tools(session_id="a")) == ["shared", "mine"]
        assert names(registry.list_tools()) == ["shared"]
        assert registry.get("mine") is None
        assert registry.get("mine", session_id="b") is None
        assert registry.get("mine", session_id="a") is not None

    async def test_sessions_may_use_one_name(self, registry: HostToolRegistry) -> None:
        """R14: what one session calls its tool is no concern of another's."""
        await registry.register(of_session(version="1.0.0"), session_id="a")
        await registry.register(of_session(version="2.0.0"), session_id="b")

        versions = [registry.get("search", session_id=each) for each in ("a", "b")]
        assert [each and each.version for each in versions] == ["1.0.0", "2.0.0"]

    async def test_it_is_dropped_when_its_session_closes(self, registry: HostToolRegistry) -> None:
        """R14, R27: and another session's stays."""
        await registry.register(of_session(), session_id="a")
        await registry.register(of_session(), session_id="b")

        await registry.close_session("a")
        await registry.close_session("a")

        assert (tools_of(registry, "a"), tools_of(registry, "b")) == ([], ["search"])

    async def test_the_scope_must_say_so(self, registry: HostToolRegistry) -> None:
        """R14: a tool of one session and a tool of all are told apart where they are defined."""
        with pytest.raises(InvalidTool, match=r"is for all sessions.*scope=ToolScope\.SESSION"):
            await registry.register(define(), session_id="a")
        with pytest.raises(InvalidTool, match="register it with session_id=, or give it a factory"):
            await registry.register(of_session())
        assert registry.list_tools(session_id="a") == []


class TestCollisions:
    async def test_a_session_cannot_shadow_a_tool_of_all(self, registry: HostToolRegistry) -> None:
        """R25: refused by default, in whichever order they come."""
        await registry.register(define("first"))
        with pytest.raises(DuplicateTool, match="'first' already; a tool of one session takes"):
            await registry.register(of_session("first"), session_id="a")

        await registry.register(of_session("second"), session_id="a")
        with pytest.raises(DuplicateTool, match="'second' already, for the session 'a' only"):
            await registry.register(define("second"))

    async def test_a_session_may_shadow_if_it_says_so(self, registry: HostToolRegistry) -> None:
        """R25: with `override` the session sees its own; everybody else, and it too once its own
        is gone, the one for all.
        """
        await registry.register(define(version="1.0.0"))
        await registry.register(of_session(version="2.0.0"), session_id="a", override=True)

        def seen(session_id: str) -> list[str]:
            return [each.version for each in registry.list_tools(session_id=session_id)]

        assert (seen("a"), seen("b")) == (["2.0.0"], ["1.0.0"])
        assert await registry.unregister("search", session_id="a")
        assert seen("a") == ["1.0.0"]

    async def test_a_tool_of_all_may_come_after_an_override(
        self, registry: HostToolRegistry
    ) -> None:
        """R25: the session has said that its own comes first."""
        await registry.register(of_session(), session_id="a", override=True)
        await registry.register(define())

        assert tools_of(registry, "a") == ["search"]


class TestFactory:
    async def test_it_is_called_once_for_each_session(self, registry: HostToolRegistry) -> None:
        """R14: with that session's context, however often the tools are asked for."""
        contexts: list[ToolContext] = []

        def factory(context: ToolContext) -> Any:
            contexts.append(context)
            calls: list[str] = []

            def handler(input: dict[str, Any], _: ToolContext) -> int:
                calls.append(input["query"])
                return len(calls)

            return handler

        await registry.register(of_session(factory=factory))
        given = context_for("a", environment={"K": "v"})
        first = registry.create_session_tools("a", given)[0]
        again = registry.create_session_tools("a", given)[0]
        other = registry.create_session_tools("b", context_for("b"))[0]

        counts = [(await each.execute({"query": "x"})).value for each in (first, again, other)]
        assert counts == [1, 2, 1]
        assert [each.session_id for each in contexts] == ["a", "b"]
        assert contexts[0].environment == {"K": "v"}

    async def test_a_factory_may_be_for_one_session_only(self, registry: HostToolRegistry) -> None:
        """R14: both ways of being of a session go together."""
        await registry.register(of_session(factory=lambda context: echo), session_id="a")

        assert (tools_of(registry, "a"), tools_of(registry, "b")) == (["search"], [])

    async def test_what_it_made_is_closed_with_the_session(
        self, registry: HostToolRegistry
    ) -> None:
        """R14, R27: once, last first, async or not, and only of that session."""
        closed: list[str] = []

        def opening(name: str, is_async: bool) -> Maker:
            async def later() -> None:
                await asyncio.sleep(0)
                closed.append(name)

            def now() -> None:
                closed.append(name)

            return lambda context: SessionHandler(echo, later if is_async else now)

        await registry.register(of_session("one", factory=opening("one", True)))
        await registry.register(of_session("two", factory=opening("two", False)))
        tools_of(registry, "a")
        tools_of(registry, "b")

        await registry.close_session("a")
        assert closed == ["two", "one"]
        await registry.close_session("a")
        assert closed == ["two", "one"]
        await registry.close_session("b")
        assert closed == ["two", "one", "two", "one"]

    async def test_one_that_fails_to_close_does_not_keep_others_open(
        self, registry: HostToolRegistry, caplog: pytest.LogCaptureFixture
    ) -> None:
        """R27: it is logged, and the session is closed."""
        closed: list[str] = []

        def broken() -> None:
            raise OSError("stuck")

        first = SessionHandler(echo, close=lambda: closed.append("first"))
        await registry.register(of_session("first", factory=lambda context: first))
        await registry.register(
            of_session("second", factory=lambda context: SessionHandler(echo, broken))
        )
        tools_of(registry, "a")

        with caplog.at_level(logging.ERROR):
            await registry.close_session("a")

        assert closed == ["first"]
        assert "tool 'second' failed to close" in caplog.text

    async def test_a_cancelled_close_still_closes_the_others(
        self, registry: HostToolRegistry
    ) -> None:
        """R27: a shutdown that runs out of patience with one leaves none of the others open."""
        closed: list[str] = []
        entered = asyncio.Event()

        async def endless() -> None:
            entered.set()
            await asyncio.Event().wait()

        first = SessionHandler(echo, close=lambda: closed.append("first"))
        await registry.register(of_session("first", factory=lambda context: first))
        await registry.register(
            of_session("second", factory=lambda context: SessionHandler(echo, endless))
        )
        tools_of(registry, "a")
        closing = asyncio.create_task(registry.close_session("a"))
        await entered.wait()
        closing.cancel()

        with pytest.raises(asyncio.CancelledError):
            await closing
        assert closed == ["first"]

    async def test_a_replaced_tools_handler_is_closed_too(self, registry: HostToolRegistry) -> None:
        """R14: overwriting a registration does not forget what it opened."""
        closed: list[str] = []

        def opening(name: str) -> Maker:
            return lambda context: SessionHandler(echo, lambda: closed.append(name))

        await registry.register(of_session(factory=opening("old")))
        tools_of(registry, "a")
        await registry.register_or_replace(of_session(factory=opening("new")))
        tools_of(registry, "a")
        await registry.unregister("search")

        await registry.close_session("a")
        assert closed == ["new", "old"]

    async def test_a_session_that_comes_back_gets_new_handlers(
        self, registry: HostToolRegistry
    ) -> None:
        """R26: resuming mounts anew; nothing that was closed is used."""
        made: list[str] = []

        def factory(context: ToolContext) -> Any:
            made.append(context.session_id)
            return echo

        await registry.register(of_session(factory=factory))
        tools_of(registry, "a")
        await registry.close_session("a")
        tools_of(registry, "a")

        assert made == ["a", "a"]


def takes_too_little(input: Any) -> None: ...


UNMOUNTABLE: list[tuple[dict[str, Maker], str]] = [
    ({"factory": lambda context: 1 / 0}, "ZeroDivisionError: division by zero"),
    ({"factory": lambda context: "echo"}, "must return a handler or a SessionHandler"),
    ({"factory": lambda context: takes_too_little}, "two arguments"),
    ({"visible_when": lambda context: 1 / 0}, "ZeroDivisionError: division by zero"),
]


class TestFailures:
    @pytest.mark.parametrize(("parts", "reason"), UNMOUNTABLE)
    async def test_one_that_cannot_be_mounted_does_not_fail_the_session(
        self, registry: HostToolRegistry, parts: dict[str, Maker], reason: str
    ) -> None:
        """R24: the others are there, and the reason is told."""
        await registry.register(define("before"))
        scope = of_session if "factory" in parts else define
        await registry.register(scope("broken", **parts))
        await registry.register(define("after"))

        tools = registry.availability(context_for("a"))

        assert [each.definition.name for each in tools.available] == ["before", "after"]
        (unavailable,) = tools.unavailable
        assert (unavailable.name, unavailable.is_fault) == ("broken", True)
        assert reason in unavailable.reason
        assert tools_of(registry, "a") == ["before", "after"]

    async def test_a_factory_cannot_ask_for_its_own_result(
        self, registry: HostToolRegistry
    ) -> None:
        """R24: it is told so, rather than left waiting for itself."""

        def factory(context: ToolContext) -> Any:
            inner = registry.availability(context)
            raise LookupError(inner.unavailable[0].reason)

        await registry.register(of_session(factory=factory))

        (unavailable,) = registry.availability(context_for("a")).unavailable
        assert (
            "asks for the tools of its own session while it makes a handler for it"
            in unavailable.reason
        )

    async def test_a_factory_that_failed_has_nothing_to_close(
        self, registry: HostToolRegistry
    ) -> None:
        """R24, R27: its session ends like any other."""
        await registry.register(of_session(factory=lambda context: 1 / 0))
        assert tools_of(registry, "a") == []

        await registry.close_session("a")

    async def test_an_order_to_stop_the_program_is_no_failure_to_mount(
        self, registry: HostToolRegistry
    ) -> None:
        """R24: it goes on up."""

        def factory(context: ToolContext) -> Any:
            raise KeyboardInterrupt

        await registry.register(of_session(factory=factory))

        with pytest.raises(KeyboardInterrupt):
            registry.create_session_tools("a", context_for("a"))

    def test_a_tool_of_each_session_has_no_handler_by_itself(self) -> None:
        """R14: it is not called with somebody else's, or with none."""
        tool = of_session(factory=lambda context: echo)

        with pytest.raises(InvalidTool, match="has a handler of its own in each session"):
            tool.to_tool()


class TestVisibility:
    async def test_a_rule_hides_a_tool_from_some_sessions(self, registry: HostToolRegistry) -> None:
        """R14: there it is neither offered nor listed as unavailable."""
        await registry.register(
            define(visible_when=lambda context: context.metadata.get("role") == "clerk")
        )

        clerk = registry.availability(context_for("a", metadata={"role": "clerk"}))
        guest = registry.availability(context_for("b"))
        assert [each.definition.name for each in clerk.available] == ["search"]
        assert (guest.available, guest.unavailable) == ((), ())

    async def test_what_the_client_cannot_do_keeps_a_tool_back(
        self, registry: HostToolRegistry
    ) -> None:
        """R49: what is left out counts as not supported, and the reason names it."""
        await registry.register(define("edit", requires=("fs", "terminal")))
        await registry.register(define("plain"))

        assert tools_of(registry, "a", capabilities=["terminal", "fs"]) == ["edit", "plain"]
        assert tools_of(registry, "a", capabilities=["fs"]) == ["plain"]
        assert tools_of(registry, "a") == ["plain"]
        (unavailable,) = registry.availability(context_for("a"), capabilities=["fs"]).unavailable
        assert (unavailable.name, unavailable.reason) == (
            "edit",
            "the client lacks the capability terminal",
        )
        assert not unavailable.is_fault

    async def test_a_factory_is_not_called_for_a_session_that_gets_no_tool(
        self, registry: HostToolRegistry
    ) -> None:
        """R49: nothing is opened that nobody can use."""
        made: list[str] = []

        def factory(context: ToolContext) -> Any:
            made.append(context.session_id)
            return echo

        await registry.register(of_session(factory=factory, requires=("fs",)))

        assert (tools_of(registry, "a"), made) == ([], [])
        assert (tools_of(registry, "a", capabilities=["fs"]), made) == (["search"], ["a"])


async def test_an_equal_tool_registered_again_keeps_its_handlers(
    registry: HostToolRegistry,
) -> None:
    """R14: a file that is loaded again without a change does not make sessions open anew."""
    made: list[str] = []

    def factory(context: ToolContext) -> Any:
        made.append(context.session_id)
        return echo

    await registry.register(of_session(factory=factory))
    tools_of(registry, "a")
    assert await registry.register_or_replace(of_session(factory=factory))
    tools_of(registry, "a")

    assert made == ["a"]
