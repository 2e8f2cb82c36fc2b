"""apply_patch as a tool: it runs through the executor like any other."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from tests.calls.runs import Run, run
from toolcrib import ToolInvoked
from toolcrib.errors import InvalidTool
from toolcrib.toolkits.apply_patch import (
    ApplyPatchConfig,
    PatchParams,
    PatchResult,
    apply_patch_tool,
)
from toolcrib.tools.provider_tools import ProviderTool


async def patch(root: Path, **arguments: Any) -> Run:
    return await run(apply_patch_tool(root, requires_approval=False), arguments)


def test_it_is_a_tool_of_one_provider_that_runs_here(tmp_path: Path) -> None:
    """P3, C1: OpenAI defines its shape, this process runs it."""
    tool = apply_patch_tool(tmp_path)

    assert isinstance(tool, ProviderTool)
    assert (tool.provider, tool.place, tool.name) == ("openai", "local", "apply_patch")
    assert (tool.params_type, tool.result_type) == (PatchParams, PatchResult)
    assert tool.config == ApplyPatchConfig(str(tmp_path))


def test_a_person_is_asked_unless_told_otherwise(tmp_path: Path) -> None:
    """A model's change of files does not happen unseen by default, and never two at a time."""
    assert apply_patch_tool(tmp_path).requires_approval
    assert apply_patch_tool(tmp_path).one_at_a_time
    assert not apply_patch_tool(tmp_path, requires_approval=False).requires_approval


async def test_without_a_yes_nothing_is_written(tmp_path: Path) -> None:
    """Until somebody approves, the patch waits."""
    done = await run(
        apply_patch_tool(tmp_path), {"operation": "create_file", "path": "x", "diff": "+1\n"}
    )

    assert done.outcome.status == "waiting"
    assert os.listdir(tmp_path) == []


async def test_a_file_is_created_updated_and_deleted(tmp_path: Path) -> None:
    """One call, one operation on one file, with a line about it for the model."""
    made = await patch(tmp_path, operation="create_file", path="d/x.txt", diff="+one\n+two\n")
    assert (tmp_path / "d" / "x.txt").read_text() == "one\ntwo\n"

    changed = await patch(tmp_path, operation="update_file", path="d/x.txt", diff="@@\n-two\n+2\n")
    assert (tmp_path / "d" / "x.txt").read_text() == "one\n2\n"

    gone = await patch(tmp_path, operation="delete_file", path="d/x.txt")
    assert not (tmp_path / "d" / "x.txt").exists()

    assert made.outcome.value == PatchResult("create_file", "d/x.txt", added=2)
    assert [each.outcome.text for each in (made, changed, gone)] == [
        "Created d/x.txt (2 lines).",
        "Updated d/x.txt (+1 -1 lines).",
        "Deleted d/x.txt.",
    ]


async def test_a_patch_that_does_not_fit_is_a_failure_and_changes_nothing(tmp_path: Path) -> None:
    """All hunks or none; the model reads what did not match, and the ledger has it too."""
    (tmp_path / "x").write_text("a\nb\n")

    done = await patch(tmp_path, operation="update_file", path="x", diff="@@\n-a\n+1\n@@\n-c\n")

    assert done.failure == "tool_error"
    assert "hunk 2 (line 4 of the diff) does not match" in done.outcome.text
    assert (tmp_path / "x").read_text() == "a\nb\n"
    assert isinstance(done.record, ToolInvoked)
    assert not done.record.success


@pytest.mark.parametrize(
    "arguments",
    [
        {"operation": "rename_file", "path": "x"},
        {"operation": "create_file", "diff": "+1\n"},
        {"operation": "create_file", "path": "x", "diff": ["+1"]},
        {},
    ],
)
async def test_what_is_no_operation_never_reaches_the_files(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    """Arguments are validated before anything runs."""
    done = await patch(tmp_path, **arguments)

    assert done.failure == "invalid_arguments"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("operation", ["create_file", "update_file"])
async def test_writing_needs_a_diff(tmp_path: Path, operation: str) -> None:
    """Only deleting goes without."""
    done = await patch(tmp_path, operation=operation, path="x")

    assert f"{operation} needs a diff" in done.outcome.text


async def test_a_diff_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """The cap counts bytes of the diff, too."""
    tool = apply_patch_tool(ApplyPatchConfig(str(tmp_path), max_bytes=4), requires_approval=False)

    done = await run(tool, {"operation": "create_file", "path": "x", "diff": "+ää\n"})

    assert "the diff has 6 bytes; the most allowed is 4" in done.outcome.text


async def test_bytes_that_are_no_text_pass_through(tmp_path: Path) -> None:
    """A file in an old encoding can be patched around what cannot be read."""
    (tmp_path / "x").write_bytes(b"caf\xe9\nb\n")

    await patch(tmp_path, operation="update_file", path="x", diff="-b\n+c\n")

    assert (tmp_path / "x").read_bytes() == b"caf\xe9\nc\n"


def test_characters_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    """A lone surrogate in a diff would be some other byte in the file."""
    tool = apply_patch_tool(tmp_path)
    handler: Any = tool.handler

    done = handler(PatchParams("create_file", "x", "+\udce9\n"))

    assert not done.success
    assert "cannot be written as UTF-8" in done.message


@pytest.mark.parametrize(
    "fields",
    [
        {"root": "relative"},
        {"root": 5},
        {"root": "/x", "max_bytes": 0},
        {"root": "/x", "max_bytes": True},
        {"root": "/x", "protected": ".git"},
        {"root": "/x", "protected": ("",)},
    ],
)
def test_unsound_options_are_refused(fields: dict[str, Any]) -> None:
    """H2: options are checked when they are made."""
    with pytest.raises(InvalidTool, match="ApplyPatchConfig"):
        ApplyPatchConfig(**fields)


def test_options_are_frozen_and_slotted() -> None:
    """H2: and cannot change afterwards."""
    config = ApplyPatchConfig("/x")

    with pytest.raises(dataclasses.FrozenInstanceError):
        config.root = "/"  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(config, "__dict__")
