"""Patches, to and from the Responses API."""

from pathlib import Path

from tests.adapters.openai.codecs.client_tools import ITEMS, PATCH, TOOLS, run
from tests.adapters.openai.typed_items import untyped_in_item
from toolcrib.toolkits.apply_patch import apply_patch_tool


def test_the_entry_has_no_options() -> None:
    """N14, P3: the root is ours alone."""
    assert PATCH.serialize(TOOLS[PATCH]) == {"type": "apply_patch"}


async def test_a_patch_is_applied_and_answered(tmp_path: Path) -> None:
    """Facts 1.8: completed with a line about it, failed with the reason; a program is named."""
    tool = apply_patch_tool(tmp_path, requires_approval=False)

    made = await run(PATCH, ITEMS["call_a"], tool)
    changed = await run(PATCH, ITEMS["call_b"], tool)
    missing = await run(PATCH, ITEMS["call_c"], tool)

    assert (tmp_path / "notes" / "todo.md").read_text() == "# To do\n- coffee\n"
    assert made == {
        "type": "apply_patch_call_output",
        "call_id": "call_a",
        "status": "completed",
        "output": "Created notes/todo.md (2 lines).",
    }
    assert changed["caller"] == {"type": "program", "caller_id": "prog_1"}
    assert missing["status"] == "failed"
    assert "'notes/old.md' does not exist" in missing["output"]
    assert [untyped_in_item(item) for item in (made, changed, missing)] == [[], [], []]


async def test_a_patch_without_sense_is_answered_with_a_failure(tmp_path: Path) -> None:
    """E4: the turn goes on, and nothing was written."""
    tool = apply_patch_tool(tmp_path, requires_approval=False)

    answered = await run(PATCH, {**ITEMS["call_a"], "operation": {"type": "move_file"}}, tool)

    assert answered["status"] == "failed"
    assert "operation" in answered["output"]
