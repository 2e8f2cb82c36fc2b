"""Memory on Anthropic: its tool, its commands, and files under one directory of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, GOOGLE
from tests.adapters.pydantic_ai.scripted_adapter import add, ask, happened, wire_bench
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import Approve, PromptEvaluationError, Session, ToolInvoked
from toolcrib.toolkits.memory import memory_tool

both = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])


def remember(command: Json, call_id: str = "call_1") -> Json:
    return ANTHROPIC.call("memory", command, call_id)


CREATE = {"command": "create", "path": "/memories/owls.md", "file_text": "They hoot.\n"}
VIEW = {"command": "view", "path": "/memories/owls.md"}


@both
def test_what_the_model_keeps_is_there_in_the_next_prompt(tmp_path: Path, stream: bool) -> None:
    """N14, N18: the tool is declared as Anthropic knows it, its commands run here, and the model
    is answered; the next prompt, of another session, finds what was kept.
    """
    session = Session()
    writing = ANTHROPIC.calls(remember(CREATE))
    with wire_bench(ANTHROPIC, writing, ANTHROPIC.says("Kept.")) as (adapter, server):
        adapter.evaluate(ask(add, memory_tool(tmp_path)), session=session, stream=stream)
    reading = ANTHROPIC.calls(remember(VIEW))
    with wire_bench(ANTHROPIC, reading, ANTHROPIC.says("Owls hoot.")) as (adapter, again):
        found = adapter.evaluate(ask(memory_tool(tmp_path)), stream=stream)

    entries = {entry["name"]: entry for entry in server.bodies[0]["tools"]}
    (event,) = happened(session, ToolInvoked)
    assert entries["memory"] == {"type": "memory_20250818", "name": "memory"}
    assert "input_schema" in entries["add"]
    assert (tmp_path / "owls.md").read_text() == "They hoot.\n"
    assert (event.name, event.origin, event.success) == ("memory", "local", True)
    assert "They hoot." in ANTHROPIC.outputs(again.bodies[1])[0]
    assert found.text == "Owls hoot."


def test_a_command_that_would_leave_the_directory_fails_and_is_told(tmp_path: Path) -> None:
    """Nothing outside is read or written, and the model hears why, as a failure."""
    outside = tmp_path.parent / "owls.md"
    escape = {**CREATE, "path": "/memories/../owls.md"}
    asked = ANTHROPIC.calls(remember(escape))
    with wire_bench(ANTHROPIC, asked, ANTHROPIC.says("Fine.")) as (adapter, server):
        adapter.evaluate(ask(memory_tool(tmp_path / "kept")))

    (result,) = server.bodies[1]["messages"][-1]["content"]
    assert not outside.exists()
    assert (result["type"], result["is_error"]) == ("tool_result", True)


def test_a_person_may_see_every_command_first(tmp_path: Path) -> None:
    """T: with `requires_approval` the turn waits, and the file is written after the yes."""
    session = Session()
    prompt = ask(memory_tool(tmp_path, requires_approval=True))
    asked = ANTHROPIC.calls(remember(CREATE))
    with wire_bench(ANTHROPIC, asked, ANTHROPIC.says("Kept.")) as (adapter, _):
        waiting = adapter.evaluate(prompt, session=session)
        is_there = (tmp_path / "owls.md").exists()
        asyncio.run(session.approvals.decide("call_1", Approve(), by="jo"))
        found = adapter.resume(prompt, session=session)

    assert (waiting.status, is_there, found.text) == ("waiting", False, "Kept.")
    assert (tmp_path / "owls.md").exists()


def test_two_commands_of_one_step_do_not_undo_each_other(tmp_path: Path) -> None:
    """Commands run one at a time, in the model's order."""
    insert = {
        "command": "str_replace",
        "path": "/memories/owls.md",
        "old_str": "hoot",
        "new_str": "hoot at night",
    }
    step = ANTHROPIC.calls(remember(CREATE), remember(insert, "call_2"))
    with wire_bench(ANTHROPIC, step, ANTHROPIC.says("Kept.")) as (adapter, _):
        adapter.evaluate(ask(memory_tool(tmp_path)))

    assert (tmp_path / "owls.md").read_text() == "They hoot at night.\n"


def test_memory_may_be_forced(tmp_path: Path) -> None:
    """N18: we run it, so the model can be made to use it first."""
    step = ANTHROPIC.calls(remember(CREATE))
    with wire_bench(ANTHROPIC, step, ANTHROPIC.says("Kept.")) as (adapter, server):
        adapter.evaluate(ask(add, memory_tool(tmp_path)), tool_choice="memory")

    first, second = (body.get("tool_choice", {}) for body in server.bodies)
    assert (first["type"], first.get("name")) == ("tool", "memory")
    assert second.get("type", "auto") == "auto"


def test_memory_is_refused_where_there_is_none(tmp_path: Path) -> None:
    """C9, N14: the shape is Anthropic's, and no other model would know what to do with it."""
    with (
        wire_bench(GOOGLE) as (adapter, server),
        pytest.raises(PromptEvaluationError, match="'memory' is for 'anthropic'") as caught,
    ):
        adapter.evaluate(ask(memory_tool(tmp_path)))

    assert (caught.value.phase, server.requests) == ("render", [])
