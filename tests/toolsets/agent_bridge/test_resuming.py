"""Runs that wait and go on elsewhere: from a store that another process opens, or from a state."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import DeferredToolResults, ModelMessagesTypeAdapter, ToolApproved

from tests.helpers.patience import PATIENCE
from tests.toolsets.agent_bridge.agent_process import SESSION, answer, ask
from tests.toolsets.agent_bridge.agents import (
    Shell,
    agent_of,
    call,
    commands_run,
    deferred,
    endings,
    told,
)
from toolcrib import Approve, Session, SqliteStore
from toolcrib.context import AgentContext
from toolcrib.session.state import ResumableState
from toolcrib.toolsets import Toolset

ROOT = Path(__file__).parents[3]
YES = '{"approvals": {"c1": true}}'


def shift(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another process at the same desk."""
    command = [
        sys.executable,
        "-m",
        "tests.toolsets.agent_bridge.agent_process",
        str(folder),
        *arguments,
    ]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=False
    )


async def test_a_run_goes_on_in_another_process(tmp_path: Path) -> None:
    """T40, T44, T49: history and store are all it takes. The frozen call runs, the pre hook does
    not run again, and the ledger is one chain over both processes.
    """
    asked = shift(tmp_path, "ask")
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["c1"]["final_arguments"] == {"command": "ls -a"}
    assert commands_run(tmp_path) == []

    went_on = shift(tmp_path, "answer", YES)
    assert went_on.returncode == 0, went_on.stderr
    assert json.loads(went_on.stdout) == {"told": ["success", "ran ls -a"]}
    assert commands_run(tmp_path) == ["ls -a"]
    assert (tmp_path / "hooked").read_text() == "."
    async with await Session.open(SqliteStore(tmp_path / "desk.db"), SESSION) as session:
        assert endings(session) == [("c1", None)]
        assert session.verify() is not None


@pytest.mark.crash
async def test_a_call_that_was_cut_off_is_asked_about(tmp_path: Path) -> None:
    """T44: after a crash the same approval does not repeat the call; a new one does."""
    shift(tmp_path, "ask")
    died = shift(tmp_path, "answer", YES, "die")
    assert died.returncode == -signal.SIGKILL
    assert commands_run(tmp_path) == ["ls -a"]

    doubtful = shift(tmp_path, "answer", YES)
    assert (
        "may or may not have taken effect" in json.loads(doubtful.stdout)["waits"]["c1"]["in_doubt"]
    )
    assert commands_run(tmp_path) == ["ls -a"]

    again = shift(tmp_path, "answer", YES)
    assert json.loads(again.stdout) == {"told": ["success", "ran ls -a"]}
    assert commands_run(tmp_path) == ["ls -a", "ls -a"]
    assert (tmp_path / "hooked").read_text() == "."


@pytest.mark.crash
async def test_a_no_to_a_call_that_was_cut_off(tmp_path: Path) -> None:
    """T41: it is not repeated, and the ledger still says that it may have taken effect."""
    shift(tmp_path, "ask")
    shift(tmp_path, "answer", YES, "die")
    denied = shift(tmp_path, "answer", '{"approvals": {"c1": false}}')

    assert json.loads(denied.stdout)["told"][0] == "denied"
    assert commands_run(tmp_path) == ["ls -a"]
    async with await Session.open(SqliteStore(tmp_path / "desk.db"), SESSION) as session:
        assert endings(session) == [("c1", "in_doubt")]
        assert session.open_calls() == []


class TestReopened:
    """The same store, opened again in this process: nothing is left but what is on the disk."""

    async def test_a_no(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """T41, T49: the denial ends the call that another writer left waiting."""
        await ask(tmp_path)
        denial = '{"approvals": {"c1": {"kind": "tool-denied", "message": "No."}}}'
        await answer(tmp_path, denial)

        assert json.loads(capsys.readouterr().out.splitlines()[1]) == {"told": ["denied", "No."]}
        async with await Session.open(SqliteStore(tmp_path / "desk.db"), SESSION) as session:
            assert endings(session) == [("c1", "denied")]
            assert session.open_calls() == []
        assert commands_run(tmp_path) == []

    async def test_overriding_arguments(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """T40, T49: they run as they are, past the pre hook, and are recorded as an edit."""
        await ask(tmp_path)
        approved = {"kind": "tool-approved", "override_args": {"command": "pwd"}}
        await answer(tmp_path, json.dumps({"approvals": {"c1": approved}}))

        outcome, content = json.loads(capsys.readouterr().out.splitlines()[1])["told"]
        assert (outcome, commands_run(tmp_path)) == ("success", ["pwd"])
        assert 'It ran with: {"command":"pwd"}' in content

    async def test_once(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """T44: a second process with the same approval asks anew."""
        await ask(tmp_path)
        await answer(tmp_path, YES)
        await answer(tmp_path, YES)

        assert "waits" in json.loads(capsys.readouterr().out.splitlines()[2])
        assert commands_run(tmp_path) == ["ls -a"]

    async def test_what_the_inbox_decided(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """T49: somebody approves in the store; the run goes on without results for the call."""
        await ask(tmp_path)
        async with await Session.open(SqliteStore(tmp_path / "desk.db"), SESSION) as session:
            await session.approvals.decide("c1", Approve({"command": "ls /srv"}), by="ada")
        await answer(tmp_path, YES)

        assert commands_run(tmp_path) == ["ls /srv"]


async def test_a_state_carries_the_waiting_call(tmp_path: Path) -> None:
    """T45, T49: an exported state and the history in JSON are enough, without any store."""
    first = AgentContext(cwd=str(tmp_path))
    first.need_user_approve_tools = ["shell"]
    steps = [[call("shell", command="ls")]]
    asked = await agent_of(Toolset(first, [Shell]), steps=steps).run("go")
    saved: tuple[bytes, bytes] = first.export_state().to_json(), asked.all_messages_json()

    state = ResumableState.from_json(saved[0])
    async with AgentContext(cwd=str(tmp_path)).with_state(state) as later:
        result: Any = await agent_of(Toolset(later, [Shell]), steps=steps).run(
            message_history=ModelMessagesTypeAdapter.validate_json(saved[1]),
            deferred_tool_results=DeferredToolResults(approvals={"c1": ToolApproved()}),
        )

    assert later.need_user_approve_tools == ["shell"]
    assert told(result) == ("success", "ran ls")
    assert commands_run(tmp_path) == ["ls"]


async def test_a_tool_that_changed_meanwhile_does_not_run(tmp_path: Path) -> None:
    """R50: an approval of one version of a tool is none of another; the model is told."""
    ctx = AgentContext(cwd=str(tmp_path))
    ctx.need_user_approve_tools = ["shell"]
    steps = [[call("shell", command="ls")]]
    asked = await agent_of(Toolset(ctx, [Shell]), steps=steps).run("go")

    class Newer(Shell):
        version = "2.0.0"

    result = await agent_of(Toolset(ctx, [Newer]), steps=steps).run(
        message_history=asked.all_messages(),
        deferred_tool_results=deferred(asked).build_results(approve_all=True),
    )

    outcome, content = told(result)
    assert outcome == "failed"
    assert "has changed since this call was made" in content
    assert commands_run(tmp_path) == []
    assert endings(ctx.session) == [("c1", "unavailable")]
