"""SessionTools: the host's tools in a live session, through its real executor and ledger."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from tests.host_tools.samples import context_for, define, echo, names, of_session
from toolcrib import Executor, Session, tool
from toolcrib.errors import DuplicateTool, UsageError
from toolcrib.host_tools import HostToolRegistry, SessionHandler, SessionTools, ToolContext
from toolcrib.ledger.events import ToolsChanged
from toolcrib.ledger.prompt_events import ToolWithheld
from toolcrib.testing import Recorder


@tool
async def local(text: str) -> str:
    """Give a text back."""
    return text


class Desk:
    """A session with its executor and the host's tools, as a runtime would hold it."""

    def __init__(
        self, registry: HostToolRegistry, session_id: str = "s", others: Any = (), **options: Any
    ) -> None:
        self.session = Session(session_id, cwd="/shop", environment={"K": "v"})
        self.recorder = Recorder(self.session.bus)
        self.mounted = SessionTools(registry, self.session, others, **options)
        self.executor = Executor(self.session, self.mounted.for_executor)
        self.mounted.follow(self.executor)

    @property
    def tools(self) -> list[str]:
        return list(self.executor.tools)

    def changes(self) -> list[tuple[str, str | None, str | None]]:
        return [
            (each.name, each.old and each.old.version, each.new and each.new.version)
            for each in self.recorder.of(ToolsChanged)
        ]

    async def kind_of_failure(self, name: str) -> str | None:
        outcome = await self.executor.call(name, {"query": "x"})
        return outcome.failure.kind if outcome.failure else None


@pytest.fixture
def registry() -> HostToolRegistry:
    return HostToolRegistry()


class TestMounting:
    async def test_host_tools_are_there_from_the_start(self, registry: HostToolRegistry) -> None:
        """R23, R28, R40: beside the session's own, without a word of any client; their calls see
        the session's folder and environment and are in its ledger.
        """
        seen: list[ToolContext] = []

        def look(input: dict[str, Any], context: ToolContext) -> str:
            seen.append(context)
            return "looked"

        await registry.register(define("look", handler=look))
        desk = Desk(registry, others=[local])

        result = await desk.mounted.tools["look"].execute({"query": "x"})

        assert desk.tools == ["look", "local"]
        assert (result.value, seen[0].cwd, seen[0].environment) == ("looked", "/shop", {"K": "v"})
        assert [entry.tool for entry in desk.session.transcript()] == ["look"]
        assert desk.changes() == []

    async def test_a_tool_that_cannot_be_mounted_does_not_fail_the_session(
        self, registry: HostToolRegistry, caplog: pytest.LogCaptureFixture
    ) -> None:
        """R24: it is logged, told with a reason, and an event of the session's."""
        await registry.register(of_session("broken", factory=lambda context: 1 / 0))
        await registry.register(define("sound"))
        broken = registry.get("broken")
        assert broken is not None

        with caplog.at_level(logging.WARNING):
            desk = Desk(registry)

        assert desk.tools == ["sound"]
        assert desk.mounted.unavailable == {"broken": "ZeroDivisionError: division by zero"}
        (event,) = desk.recorder.of(ToolWithheld)
        assert (event.tool, event.reason) == (
            broken.ref,
            "ZeroDivisionError: division by zero",
        )
        assert "session s has no tool 'broken': ZeroDivisionError" in caplog.text
        assert "tool.withheld" in [each.kind for each in desk.session.records()]

    async def test_what_the_client_cannot_do_is_told_without_a_fault(
        self, registry: HostToolRegistry
    ) -> None:
        """R49: not offered, listed with the reason."""
        await registry.register(define("edit", requires=("fs",)))

        without, able = Desk(registry), Desk(registry, "t", capabilities=["fs"])

        assert (without.tools, able.tools) == ([], ["edit"])
        assert without.mounted.unavailable == {"edit": "the client lacks the capability fs"}
        assert without.recorder.of(ToolWithheld) == []

    async def test_a_session_that_is_resumed_gets_its_tools_again(
        self, registry: HostToolRegistry
    ) -> None:
        """R26: mounting is the same for a session that was there before."""
        await registry.register(define())
        first = Desk(registry)
        await first.mounted.close()
        await first.session.close()

        again = Desk(registry)

        assert again.tools == ["search"]

    async def test_calls_before_following_are_refused(self, registry: HostToolRegistry) -> None:
        """A call that would leave no trace in the session is not made."""
        await registry.register(define())
        mounted = SessionTools(registry, Session("s"))

        with pytest.raises(UsageError, match=r"pass one to follow\(\) first"):
            await mounted.tools["search"].execute({"query": "x"})
        with pytest.raises(UsageError, match="belongs to another session"):
            mounted.follow(Executor(Session("t")))


class TestCollisions:
    async def test_the_sessions_own_tools_come_first(self, registry: HostToolRegistry) -> None:
        """R25: a host tool of the same name is refused, with a reason that names the other."""
        await registry.register(define("local"))

        desk = Desk(registry, others=[local])

        assert (await desk.executor.call("local", {"text": "mine"})).value == "mine"
        why = "the session has a tool of that name from 'python'"
        assert desk.mounted.unavailable == {"local": why}
        assert [each.reason for each in desk.recorder.of(ToolWithheld)] == [why]

    async def test_override_takes_the_place_and_gives_it_back(
        self, registry: HostToolRegistry
    ) -> None:
        """R25: only where the host asked for it; when it is gone the session's own is back."""
        await registry.register(define("local"), override=True)
        desk = Desk(registry, others=[local])
        assert (await desk.executor.call("local", {"query": "x"})).value == "s: x"

        await registry.unregister("local")

        assert (await desk.executor.call("local", {"text": "mine"})).value == "mine"

    async def test_a_collision_while_the_session_lives_is_the_same(
        self, registry: HostToolRegistry
    ) -> None:
        """R25: refused and told, or put in the place if the host asked for it."""
        desk = Desk(registry, others=[local])

        await registry.register(define("local"))
        assert "from 'python'" in desk.mounted.unavailable["local"]
        assert (await desk.executor.call("local", {"text": "mine"})).value == "mine"
        await registry.unregister("local")
        assert desk.mounted.unavailable == {}

        await registry.register(define("local"), override=True)
        assert (await desk.executor.call("local", {"query": "x"})).value == "s: x"
        await registry.unregister("local")
        assert (await desk.executor.call("local", {"text": "mine"})).value == "mine"

    async def test_two_tools_of_the_sessions_own_with_one_name_are_refused(
        self, registry: HostToolRegistry
    ) -> None:
        """R25: neither is dropped in silence."""
        with pytest.raises(DuplicateTool, match="two tools named 'local'"):
            SessionTools(registry, Session("s"), [local, local])


class TestLiveChanges:
    async def test_every_affected_session_hears_of_a_change_once(
        self, registry: HostToolRegistry
    ) -> None:
        """R15, R50: one `tools.changed` each, with what was and what is; others hear nothing."""
        await registry.register(define("steady"))
        one, two = Desk(registry, "one"), Desk(registry, "two")

        await registry.register(define(version="1.0.0"))
        await registry.register_or_replace(define(version="2.0.0"))
        await registry.unregister("search")
        await registry.register(of_session("own"), session_id="two")

        shared = [
            ("search", None, "1.0.0"),
            ("search", "1.0.0", "2.0.0"),
            ("search", "2.0.0", None),
        ]
        assert one.changes() == shared
        assert two.changes() == [*shared, ("own", None, "0.0.0")]
        assert (one.tools, two.tools) == (["steady"], ["steady", "own"])
        assert await one.kind_of_failure("own") == "not_found"

    async def test_additions_show_in_the_next_turn_and_removals_at_once(
        self, registry: HostToolRegistry
    ) -> None:
        """R15: a model's call of a removed tool is a failure it can read."""
        await registry.register(define("old"))
        desk = Desk(registry)

        with desk.executor.turn():
            await registry.register(define("new"))
            await registry.unregister("old")
            assert desk.tools == []
            assert await desk.kind_of_failure("old") == "not_found"
            assert await desk.kind_of_failure("new") == "not_found"

        assert desk.tools == ["new"]
        assert await desk.kind_of_failure("new") is None

    async def test_a_turn_keeps_the_version_it_began_with(self, registry: HostToolRegistry) -> None:
        """R50: a replacement takes effect in the next one."""
        await registry.register(define(version="1.0.0"))
        desk = Desk(registry)

        with desk.executor.turn():
            await registry.register_or_replace(define(version="2.0.0"))
            assert desk.executor.tools["search"].ref.version == "1.0.0"
        assert desk.executor.tools["search"].ref.version == "2.0.0"

    async def test_a_call_in_flight_completes(self, registry: HostToolRegistry) -> None:
        """R15: taking a tool away does not take a running call's handler away."""
        entered, leave = asyncio.Event(), asyncio.Event()

        async def slow(input: dict[str, Any], context: ToolContext) -> str:
            entered.set()
            await leave.wait()
            return "done"

        await registry.register(define(handler=slow))
        desk = Desk(registry)
        calling = asyncio.create_task(desk.executor.call("search", {"query": "x"}))
        await entered.wait()

        await registry.unregister("search")
        leave.set()

        assert (await calling).value == "done"

    async def test_a_session_that_shadows_a_tool_is_not_told_of_it(
        self, registry: HostToolRegistry
    ) -> None:
        """R15, R25: only what it sees concerns it; once its own is gone, at once, the shared one
        is there.
        """
        await registry.register(define(version="1.0.0"))
        await registry.register(of_session(version="5.0.0"), session_id="s", override=True)
        desk = Desk(registry)

        await registry.register_or_replace(define(version="2.0.0"))
        assert desk.changes() == []
        with desk.executor.turn():
            await registry.unregister("search", session_id="s")
            assert await desk.kind_of_failure("search") == "not_found"
        assert desk.executor.tools["search"].ref.version == "2.0.0"

    async def test_a_change_from_another_thread_reaches_the_sessions_loop(
        self, registry: HostToolRegistry
    ) -> None:
        """R11, R15: an executor is only touched in the loop that it belongs to."""
        desk = Desk(registry)
        changed = asyncio.Event()
        threads: list[threading.Thread] = []

        def hear(event: ToolsChanged) -> None:
            threads.append(threading.current_thread())
            changed.set()

        desk.session.bus.subscribe(ToolsChanged, hear)

        await asyncio.to_thread(lambda: asyncio.run(registry.register(define())))
        await changed.wait()

        assert desk.tools == ["search"]
        assert threads == [threading.current_thread()]

    async def test_nothing_is_missed_between_mounting_and_following(
        self, registry: HostToolRegistry
    ) -> None:
        """R15: what changes while the executor is being made is applied when it is there."""
        await registry.register(define("gone"))
        session = Session("s")
        mounted = SessionTools(registry, session)
        executor = Executor(session, mounted.for_executor)
        await registry.register(define("new"))
        await registry.unregister("gone")

        mounted.follow(executor)

        assert list(executor.tools) == ["new"]

    async def test_a_replacement_that_cannot_be_mounted_takes_the_old_one_away(
        self, registry: HostToolRegistry
    ) -> None:
        """R24, R15: what the host took back is not run, and the reason is told."""
        await registry.register(define())
        desk = Desk(registry)

        await registry.register_or_replace(of_session(factory=lambda context: 1 / 0))
        assert desk.tools == []
        assert desk.mounted.unavailable == {"search": "ZeroDivisionError: division by zero"}

        await registry.register_or_replace(define())
        assert (desk.tools, desk.mounted.unavailable) == (["search"], {})


class TestEnd:
    async def test_a_session_that_ends_lets_go_of_everything(
        self, registry: HostToolRegistry
    ) -> None:
        """R14, R27: its own tools, its handlers, and the listening."""
        closed: list[str] = []
        handler = SessionHandler(echo, close=lambda: closed.append("closed"))
        await registry.register(of_session("own"), session_id="s")
        await registry.register(of_session("made", factory=lambda context: handler))
        desk = Desk(registry)

        await desk.mounted.close()
        await desk.mounted.close()
        await desk.session.close()
        await registry.register(define("late"))

        assert closed == ["closed"]
        assert names(registry.list_tools(session_id="s")) == ["made", "late"]
        assert desk.changes() == []
        assert names(registry.create_session_tools("s", context_for("s"))) == ["made", "late"]
