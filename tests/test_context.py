"""AgentContext: the session by the name that toolsets know, and its state in other processes."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.toolsets.samples import Shell, commands_run
from toolcrib import (
    ApprovalRequired,
    Approve,
    CallFailed,
    Policy,
    Rule,
    Session,
    SqliteStore,
    ToolContext,
)
from toolcrib.context import AgentContext
from toolcrib.errors import InvalidState, LeaseLost, UsageError
from toolcrib.session.state import ResumableState
from toolcrib.toolsets import BaseTool, Toolset

LISTED = ["shell", "edit", "replace"]


class TestContext:
    def test_nothing_is_needed_to_make_one(self) -> None:
        """T50: `AgentContext()` works, and asks about no tool."""
        ctx = AgentContext()

        assert ctx.need_user_approve_tools == []
        assert ctx.session.session_id
        assert AgentContext().session.session_id != ctx.session.session_id

    async def test_it_is_an_async_context_manager(self) -> None:
        """T50: the session is open inside and closed after."""
        async with AgentContext(cwd="/a", need_user_approve_tools=["shell"]) as ctx:
            assert isinstance(ctx, AgentContext)
            assert (ctx.session.cwd, ctx.need_user_approve_tools) == ("/a", ["shell"])
            ctx.need_user_approve_tools = LISTED
            assert ctx.need_user_approve_tools == LISTED

        with pytest.raises(LeaseLost):
            await Toolset(ctx, [Shell]).call("shell", {"command": "ls"})

    def test_it_is_a_face_of_a_session_and_no_second_truth(self) -> None:
        """T50: what is set on one is set on the other."""
        session = Session()
        ctx = AgentContext(session)

        ctx.need_user_approve_tools = ["shell"]
        session.need_user_approve_tools.append("edit")

        assert ctx.session is session
        assert session.need_user_approve_tools == ctx.need_user_approve_tools == ["shell", "edit"]

    def test_options_for_a_session_that_exists_are_refused(self) -> None:
        """Dropping them in silence could drop the list of tools to ask about."""
        with pytest.raises(UsageError) as caught:
            AgentContext(Session(), need_user_approve_tools=["shell"], cwd="/")

        assert str(caught.value) == (
            "AgentContext got a session and options for a new one (need_user_approve_tools, cwd); "
            "pass the options to the session"
        )

    def test_a_name_is_not_a_list_of_names(self) -> None:
        """A text would be taken apart into letters, and no tool would be asked about."""
        ctx = AgentContext()

        with pytest.raises(UsageError) as caught:
            ctx.need_user_approve_tools = "shell"

        assert str(caught.value) == "need_user_approve_tools is a list of names; write ['shell']"
        assert ctx.need_user_approve_tools == []

    def test_the_list_is_a_copy_of_what_was_given(self) -> None:
        """T42: changing the list that was given changes nothing by accident."""
        given = ["shell"]
        ctx = AgentContext()
        ctx.need_user_approve_tools = given
        given.clear()

        assert ctx.need_user_approve_tools == ["shell"]

    async def test_a_tool_finds_the_context_in_its_deps(self) -> None:
        """A tool may reach the context it runs in; deps of the host's own are left alone."""
        found: list[Any] = []

        class Look(BaseTool):
            name = "look"
            description = "Looks for its deps"

            async def call(self, ctx: ToolContext) -> None:
                found.append(ctx.deps)

        plain, own = AgentContext(), AgentContext(deps="mine")
        for ctx in (plain, own):
            await Toolset(ctx, [Look]).call_tool("look", {})

        assert found == [plain, "mine"]

    async def test_the_list_outlives_the_process_in_a_store(self, sqlite_path: Path) -> None:
        """T45: a session in a store keeps its list without any export."""
        with SqliteStore(sqlite_path) as store:
            async with AgentContext(await Session.open(store, "s")) as ctx:
                ctx.need_user_approve_tools = LISTED
                assert store.session("s").settings["need_user_approve_tools"] == LISTED

        with SqliteStore(sqlite_path) as store:
            async with AgentContext(await Session.open(store, "s")) as again:
                assert again.need_user_approve_tools == LISTED


class TestState:
    def test_the_list_is_restored(self) -> None:
        """T45: equal, and in its order."""
        ctx = AgentContext()
        ctx.need_user_approve_tools = LISTED

        new_ctx = AgentContext().with_state(ctx.export_state())

        assert new_ctx.need_user_approve_tools == LISTED
        assert new_ctx.session.session_id == ctx.session.session_id

    def test_a_state_travels_as_json(self) -> None:
        """T46: to bytes and back gives an equal state, readable by anything that reads JSON."""
        ctx = AgentContext()
        ctx.need_user_approve_tools = LISTED
        state = ctx.export_state()

        assert ResumableState.from_json(state.to_json()) == state
        assert json.loads(state.to_json())["need_user_approve_tools"] == LISTED

    def test_a_state_is_a_copy(self) -> None:
        """T46: what happens to the context afterwards is not in it."""
        ctx = AgentContext()
        ctx.need_user_approve_tools = LISTED
        state = ctx.export_state()
        ctx.need_user_approve_tools.clear()

        assert list(state.need_user_approve_tools) == LISTED
        restored = AgentContext().with_state(state)
        restored.need_user_approve_tools.clear()
        assert list(state.need_user_approve_tools) == LISTED

    async def test_no_state_changes_nothing(self) -> None:
        """T47: `with_state(None)` gives the same context, ready for `async with`."""
        ctx = AgentContext(need_user_approve_tools=["shell"])
        session_id = ctx.session.session_id

        assert ctx.with_state(None) is ctx
        assert (ctx.session.session_id, ctx.need_user_approve_tools) == (session_id, ["shell"])
        state = AgentContext(need_user_approve_tools=["edit"]).export_state()
        async with AgentContext().with_state(state) as restored:
            assert restored.need_user_approve_tools == ["edit"]

    @pytest.mark.parametrize(
        ("host", "kept", "expected"),
        [
            (["shell"], [], ["shell"]),
            ([], ["edit"], ["edit"]),
            (["shell"], ["edit"], ["edit", "shell"]),
            (["shell", "edit"], ["edit"], ["edit", "shell"]),
        ],
    )
    def test_a_state_never_makes_the_host_laxer(
        self, host: list[str], kept: list[str], expected: list[str]
    ) -> None:
        """T48: what the host asks about stays; the state may add to it."""
        state = AgentContext(need_user_approve_tools=kept).export_state()
        restored = AgentContext(need_user_approve_tools=host).with_state(state)

        assert restored.need_user_approve_tools == expected

    async def test_a_restored_list_is_obeyed(self, tmp_path: Path) -> None:
        """T48: host and state both: each of their tools is asked about."""

        class Edit(Shell):
            name = "edit"

        state = AgentContext(need_user_approve_tools=["edit"]).export_state()
        host = AgentContext(cwd=str(tmp_path), need_user_approve_tools=["shell"])
        toolset = Toolset(host.with_state(state), [Shell, Edit])

        for name in ("shell", "edit"):
            with pytest.raises(ApprovalRequired):
                await toolset.call_tool(name, {"command": "ls"})
        assert commands_run(tmp_path) == []

    async def test_a_yes_in_a_state_does_not_beat_the_hosts_policy(self, tmp_path: Path) -> None:
        """T48: what the host forbids by now does not run, whoever approved it before."""
        ctx = AgentContext(need_user_approve_tools=["shell"])
        await Toolset(ctx, [Shell]).call("shell", {"command": "ls"}, "c1")
        await ctx.session.approvals.decide("c1", Approve(), by="ada")

        host = AgentContext(cwd=str(tmp_path)).with_state(ctx.export_state())
        (outcome,) = await Toolset(host, [Shell], policy=Policy((Rule("deny"),))).resume()

        assert outcome.failure is not None
        assert outcome.failure.kind == "not_permitted"
        assert commands_run(tmp_path) == []

    async def test_a_signed_state_cannot_be_changed(self, tmp_path: Path) -> None:
        """T48: with a key, neither a shorter list nor a forged approval gets in."""
        ctx = AgentContext(need_user_approve_tools=["shell"])
        await Toolset(ctx, [Shell]).call("shell", {"command": "ls"}, "c1")
        state = ctx.export_state(key=b"secret")

        for changed in (
            replace(state, need_user_approve_tools=()),
            replace(state, open_calls=(replace(state.open_calls[0], approval_id=None),)),
            replace(state, signature=""),
        ):
            with pytest.raises(InvalidState, match="changed, or signed with another key"):
                AgentContext().with_state(changed, key=b"secret")
        with pytest.raises(InvalidState):
            AgentContext().with_state(state, key=b"other")
        assert AgentContext().with_state(state, key=b"secret").session.approvals.pending()

    async def test_the_approved_arguments_cannot_be_exchanged(self, tmp_path: Path) -> None:
        """T44: other arguments in the state than the approver saw do not run."""
        ctx = AgentContext(need_user_approve_tools=["shell"])
        await Toolset(ctx, [Shell]).call("shell", {"command": "ls"}, "c1")
        state = ctx.export_state()
        forged = replace(state.open_calls[0], arguments=b'{"command":"rm"}')

        new_ctx = AgentContext(cwd=str(tmp_path)).with_state(replace(state, open_calls=(forged,)))
        await new_ctx.session.approvals.decide("c1", Approve(), by="ada")
        with pytest.raises(CallFailed) as caught:
            await Toolset(new_ctx, [Shell]).call_tool("shell", {"command": "ls"}, "c1")

        assert caught.value.failure.kind == "unavailable"
        assert commands_run(tmp_path) == []


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.toolsets.samples import Shell
from toolcrib import Approve, Deny
from toolcrib.context import AgentContext
from toolcrib.session.state import ResumableState
from toolcrib.toolsets import Toolset

async def main(cwd, decision):
    state = ResumableState.from_json(sys.stdin.buffer.read())
    async with AgentContext(cwd=cwd).with_state(state) as ctx:
        toolset = Toolset(ctx, [Shell])
        for request in ctx.session.approvals.pending():
            print("asked", request.call_id, request.arguments, request.metadata["risk_level"])
            if decision != "wait":
                yes = decision == "approve"
                made = Approve() if yes else Deny("Not now.")
                await ctx.session.approvals.decide(request.call_id, made, by="ada")
        for outcome in await toolset.resume():
            print(outcome.status, outcome.text)
        print("list", ctx.need_user_approve_tools)
        ctx.session.verify()
        Path(cwd, "state").write_bytes(ctx.export_state().to_json())

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.wire
class TestOtherProcess:
    def in_another_process(self, state: ResumableState, cwd: Path, decision: str) -> list[str]:
        ended = subprocess.run(
            [sys.executable, "-c", CHILD, str(cwd), decision],
            input=state.to_json(),
            capture_output=True,
            cwd=Path(__file__).parents[1],
            timeout=PATIENCE,
        )
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode().splitlines()

    async def waiting_state(self) -> ResumableState:
        ctx = AgentContext(need_user_approve_tools=["shell", "edit"])
        with pytest.raises(ApprovalRequired):
            await Toolset(ctx, [Shell]).call_tool("shell", {"command": "ls"}, "c1")
        return ctx.export_state()

    @pytest.mark.parametrize(
        ("decision", "ended", "ran"),
        [("approve", "completed ran ls", ["ls"]), ("deny", "failed Not now.", [])],
    )
    async def test_a_pending_approval_is_answered_elsewhere(
        self, tmp_path: Path, decision: str, ended: str, ran: list[str]
    ) -> None:
        """T45, T49: a process that knows only the state shows the request, takes the answer and
        goes on with the frozen call.
        """
        told = self.in_another_process(await self.waiting_state(), tmp_path, decision)

        assert told == ["asked c1 {'command': 'ls'} high", ended, "list ['shell', 'edit']"]
        assert commands_run(tmp_path) == ran

    async def test_a_request_nobody_answers_comes_back(self, tmp_path: Path) -> None:
        """T49: over two processes and back, the request waits, the ledger holds and the call runs
        once.
        """
        told = self.in_another_process(await self.waiting_state(), tmp_path, "wait")
        assert told[1].startswith("waiting")

        returned = ResumableState.from_json((tmp_path / "state").read_bytes())
        ctx = AgentContext(cwd=str(tmp_path)).with_state(returned)
        await ctx.session.approvals.decide("c1", Approve(), by="ada")
        (outcome,) = await Toolset(ctx, [Shell]).resume()

        assert (outcome.value, commands_run(tmp_path)) == ("ran ls", ["ls"])
        ctx.session.verify()
        assert [entry.what for entry in ctx.session.transcript()] == [
            "waiting",
            "decided",
            "completed",
        ]
