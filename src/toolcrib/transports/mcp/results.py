"""Results of calls in the form of MCP: text, structured content, the content blocks of mounted
tools, and artifacts as resources.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_types import (
    ContentBlock,
)
from pydantic import TypeAdapter, ValidationError

from toolcrib.mcp_client.results import text_of

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

    from toolcrib.runtime.messages import CallResult

_BLOCK: Final = TypeAdapter[ContentBlock](ContentBlock)


def content_blocks(value: Any, text: str) -> list[dict[str, Any]] | None:
    """The content blocks of a mounted tool's value; None when the value is something else.

    `text` is the result for a model. Where it differs from the text blocks, because it was cut or
    replaced, it takes their place.
    """
    written = _written(value)
    if written is None:
        return None
    blocks = [block for content in written if (block := _block(content)) is not None]
    parts = [_plain(block) for block in blocks]
    if len(blocks) == len(written) and text_of(blocks) == text:
        return parts
    return [{"type": "text", "text": text}, *(part for part in parts if part["type"] != "text")]


def _written(value: Any) -> list[dict[str, Any]] | None:
    """The list under `content`, if that is the only key and every item has a type."""
    if not isinstance(value, dict) or list(cast("dict[str, Any]", value)) != ["content"]:
        return None
    content: Any = cast("dict[str, Any]", value)["content"]
    if not isinstance(content, list) or not content:
        return None
    parts = cast("list[Any]", content)
    return parts if all(isinstance(part, dict) and "type" in part for part in parts) else None


def _block(part: dict[str, Any]) -> ContentBlock | None:
    """One block; None for a block that was left out because it was too large."""
    try:
        return _BLOCK.validate_python(part)
    except ValidationError:
        return None


def _plain(block: ContentBlock) -> dict[str, Any]:
    return _BLOCK.dump_python(block, mode="json", by_alias=True, exclude_none=True)


CALL_META: Final = "toolcrib/call"
"""The key in `_meta` for the call id of a result, and why the call failed or waits."""
ARTIFACTS: Final = "toolcrib://artifacts/"
"""The URI prefix of results that were too long to send in full."""

_INVALID_RESULT: Final = "The result of `{}` does not match its output schema and was withheld."


def call_result(
    result: CallResult, output: Draft202012Validator | None, *, is_mounted: bool = False
) -> dict[str, Any]:
    """The result of `tools/call`. Structured content matches the output schema of the tool. The
    content blocks of a mounted tool are passed on.
    """
    if result.status == "completed":
        return _completed(result, output, is_mounted)
    facts = meta_of(result)
    facts["failure"] = asdict(result.failure) if result.failure else None
    if result.value is not None:
        facts["value"] = result.value
    return error(result.text, facts)


def waiting_result(result: CallResult) -> dict[str, Any]:
    """The result of a waiting call: its approval request, and what to do."""
    text = (
        f"Waiting for approval {result.approval_id}: `{result.tool}` has not run, because a "
        "person has to approve this call first. Once they have decided, call it again with the "
        "same arguments."
    )
    return error(text, {**meta_of(result), "text": result.text})


def error(text: str, facts: dict[str, Any]) -> dict[str, Any]:
    """An error result."""
    return {
        "resultType": "complete",
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "_meta": {CALL_META: facts},
    }


def meta_of(result: CallResult) -> dict[str, Any]:
    """The ids of the call of a result."""
    facts: dict[str, Any] = {"call_id": result.call_id, "status": result.status}
    if result.approval_id is not None:
        facts["approval_id"] = result.approval_id
    if result.artifact_id is not None:
        facts["artifact_id"] = result.artifact_id
    if result.metadata:
        facts["metadata"] = result.metadata
    return facts


def _completed(
    result: CallResult, output: Draft202012Validator | None, is_mounted: bool
) -> dict[str, Any]:
    value: Any = result.value
    if output is not None and not output.is_valid(value):
        # A hook or a person may have replaced the result.
        facts = {**meta_of(result), "failure": {"kind": "invalid_result"}}
        return error(_INVALID_RESULT.format(result.tool), facts)
    parts = content_blocks(value, result.text) if is_mounted else None
    content = parts or [{"type": "text", "text": result.text}]
    if result.artifact_id is not None:
        content.append(_link(result.artifact_id))
    answer: dict[str, Any] = {
        "resultType": "complete",
        "content": content,
        "_meta": {CALL_META: meta_of(result)},
    }
    if isinstance(value, dict) and parts is None:
        answer["structuredContent"] = cast("dict[str, Any]", value)
    return answer


def _link(artifact_id: str) -> dict[str, Any]:
    return {
        "type": "resource_link",
        "uri": f"{ARTIFACTS}{artifact_id}",
        "name": artifact_id,
        "description": "The full result",
        "mimeType": "text/plain",
    }
