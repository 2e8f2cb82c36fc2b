"""What a call came to, as MCP tells it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.transports.mcp.parts import parts_of

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

    from toolcrib.runtime.messages import CallResult

CALL_META: Final = "toolcrib/call"
"""Where a result says in `_meta` which call it is of, and why it failed or waits."""
ARTIFACTS: Final = "toolcrib://artifacts/"
"""Where results are read that were too long to be sent whole."""

_NO_OBJECT: Final = "`{}` gave a result that is not what it promises; nothing of it is passed on."


def told(
    result: CallResult, output: Draft202012Validator | None, *, is_mounted: bool = False
) -> dict[str, Any]:
    """The result of `tools/call`. What is structured is what the tool's output schema says, or
    there is none. The parts of another server's answer are given on as parts.
    """
    if result.status == "completed":
        return _completed(result, output, is_mounted)
    facts = meta_of(result)
    facts["failure"] = asdict(result.failure) if result.failure else None
    if result.value is not None:
        facts["value"] = result.value
    return error(result.text, facts)


def told_waiting(result: CallResult) -> dict[str, Any]:
    """A result that says what a call waits for, and what to do."""
    text = (
        f"Waiting for approval {result.approval_id}: `{result.tool}` has not run, because a "
        "person has to approve this call first. Once they have decided, call it again with the "
        "same arguments."
    )
    return error(text, {**meta_of(result), "text": result.text})


def error(text: str, facts: dict[str, Any]) -> dict[str, Any]:
    """A result that says why there is none."""
    return {
        "resultType": "complete",
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "_meta": {CALL_META: facts},
    }


def meta_of(result: CallResult) -> dict[str, Any]:
    """Which call a result is of."""
    facts: dict[str, Any] = {"call_id": result.call_id, "status": result.status}
    if result.approval_id is not None:
        facts["approval_id"] = result.approval_id
    if result.artifact_id is not None:
        facts["artifact_id"] = result.artifact_id
    return facts


def _completed(
    result: CallResult, output: Draft202012Validator | None, is_mounted: bool
) -> dict[str, Any]:
    value: Any = result.value
    if output is not None and not output.is_valid(value):
        # A hook or a person may have put something else in the result's place.
        facts = {**meta_of(result), "failure": {"kind": "invalid_result"}}
        return error(_NO_OBJECT.format(result.tool), facts)
    parts = parts_of(value, result.text) if is_mounted else None
    content = parts or [{"type": "text", "text": result.text}]
    if result.artifact_id is not None:
        content.append(_link(result.artifact_id))
    made: dict[str, Any] = {
        "resultType": "complete",
        "content": content,
        "_meta": {CALL_META: meta_of(result)},
    }
    if isinstance(value, dict) and parts is None:
        made["structuredContent"] = cast("dict[str, Any]", value)
    return made


def _link(artifact_id: str) -> dict[str, Any]:
    return {
        "type": "resource_link",
        "uri": f"{ARTIFACTS}{artifact_id}",
        "name": artifact_id,
        "description": "The whole result",
        "mimeType": "text/plain",
    }
