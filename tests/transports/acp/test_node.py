"""Editors that are not ours: the TypeScript SDK, and acpx."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.child_process import PYTHON_PATH
from tests.helpers.patience import PATIENCE
from tests.node.peers import MODULES, command, environment, needs_node
from tests.transports.stdio_host import ROOT

pytestmark = [needs_node, pytest.mark.slow]

AGENT = (sys.executable, "-m", "tests.transports.acp.shop_agent")
SDK = MODULES / "@agentclientprotocol" / "sdk" / "dist" / "v1" / "stable" / "acp.js"
CLIENT = Path(__file__).with_name("client.mjs")


async def run(*words: str, home: Path, **more: str) -> tuple[int, str, str]:
    """Run a command to its end."""
    env = environment(PYTHONPATH=PYTHON_PATH, HOME=str(home), **more)
    process = await asyncio.create_subprocess_exec(
        *words, cwd=ROOT, env=env, stdout=-1, stderr=-1, stdin=-3
    )
    async with asyncio.timeout(PATIENCE):
        out, errors = await process.communicate()
    return process.returncode or 0, out.decode(), errors.decode()


async def typescript(
    home: Path, option: str, *flags: str, session: str = "-", kill: str = "-"
) -> Any:
    """What the client on the TypeScript SDK was told."""
    asked = (str(SDK), option, session, kill, *AGENT, "--script", "guarded", *flags)
    code, out, errors = await run(command("node"), str(CLIENT), *asked, home=home)
    assert code == 0, errors
    return json.loads(out)


def kinds(told: Any) -> list[str]:
    return [each["sessionUpdate"] for each in told["updates"]]


def texts(told: Any) -> list[str]:
    return [each["content"]["text"] for each in told["updates"] if "chunk" in each["sessionUpdate"]]


async def test_the_typescript_sdk_prompts_and_allows(tmp_path: Path) -> None:
    """Every message passes the schema of another SDK, and the call, which is pending while the
    model writes it and while it waits, runs after the allow.
    """
    told = await typescript(tmp_path, "allow")

    assert told.get("error") is None
    assert told["initialized"]["protocolVersion"] == 1
    assert told["stopReason"] == "end_turn"
    assert [each["toolCall"]["toolCallId"] for each in told["questions"]] == ["call_model_2"]
    assert texts(told) == ["Bob was greeted."]
    statuses = [each["status"] for each in told["updates"] if "status" in each]
    assert statuses == ["pending", "pending", "in_progress", "completed"]


@pytest.mark.parametrize(("option", "reason"), [("reject", "end_turn"), ("cancel", "cancelled")])
async def test_the_typescript_sdk_rejects_and_cancels(
    tmp_path: Path, option: str, reason: str
) -> None:
    """Neither runs the call."""
    told = await typescript(tmp_path, option)

    assert told["stopReason"] == reason
    statuses = [each["status"] for each in told["updates"] if "status" in each]
    assert statuses == ["pending", "pending", "failed"]


async def test_the_typescript_sdk_loads_after_the_agent_was_killed(tmp_path: Path) -> None:
    """SIGKILL while a person is asked: what happened is told again, and nothing was run."""
    store = ("--store", str(tmp_path / "crib.sqlite3"))
    first = await typescript(tmp_path, "allow", *store, kill="KILL")
    assert "error" in first

    told = await typescript(tmp_path, "none", *store, session=first["sessionId"])

    assert told.get("error") is None
    assert kinds(told) == ["user_message_chunk", "tool_call"]
    assert texts(told) == ["Greet Bob."]
    assert [each["sessionId"] for each in told["sessions"]] == [first["sessionId"]]


def acpx(*words: str, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
    agent = shlex.join([*AGENT, "--script", "guarded", *flags])
    return (command("acpx"), "--agent", agent, *words)


@pytest.mark.parametrize(
    ("policy", "status", "result"),
    [("--approve-all", "completed", "Hello, Bob!"), ("--deny-all", "failed", "denied")],
)
async def test_acpx_approves_and_denies_all(
    tmp_path: Path, policy: str, status: str, result: str
) -> None:
    """A client from the command line decides by its own policy; ours is what runs or does not."""
    asked = acpx(policy, "--format", "json", "--json-strict", "exec", "Greet Bob.")
    code, out, errors = await run(*asked, home=tmp_path)

    messages = [json.loads(line) for line in out.splitlines()]
    updates = [
        each["params"]["update"] for each in messages if each.get("method") == "session/update"
    ]
    ended = [each for each in updates if each.get("status") in ("completed", "failed")]
    assert [each["status"] for each in ended] == [status], errors
    assert result in json.dumps(ended[0]["rawOutput"])
    assert '"stopReason":"end_turn"' in out.replace(" ", "")
    assert code in (0, 5)


async def test_acpx_goes_on_after_the_agent_was_killed(tmp_path: Path) -> None:
    """A session by name outlives the process that served it: acpx takes it up in the next one."""
    pids = tmp_path / "pids"
    flags = ("--store", str(tmp_path / "crib.sqlite3"), "--pids", str(pids))

    async def done(*words: str) -> str:
        code, out, errors = await run(*acpx(*words, flags=flags), home=tmp_path)
        assert code == 0, out + errors
        return out

    await done("sessions", "new", "--name", "s1")
    try:
        assert "Bob was greeted." in await done("--approve-all", "prompt", "-s", "s1", "Greet.")
        os.kill(int(pids.read_text().split()[-1]), signal.SIGKILL)

        again = await done("--approve-all", "prompt", "-s", "s1", "Greet.")
    finally:
        await done("sessions", "close", "s1")

    assert "session/resume" in again
    assert "Bob was greeted." in again
