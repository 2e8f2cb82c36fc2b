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

from toolcrib.mcp_client.results import ANSWER_KEY, ServerAnswer, server_answer, text_of

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

    from toolcrib.runtime.messages import CallResult

_BLOCK: Final = TypeAdapter[ContentBlock](ContentBlock)


def content_blocks(parts: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The content blocks of a mounted tool's answer, as its server wrote them.

    `text` is the result for a model. Where it differs from the text blocks, because it was cut or
    replaced, it takes their place.
    """
    blocks = [block for part in parts if (block := _block(part)) is not None]
    if len(blocks) == len(parts) and (not parts or text_of(blocks) == text):
        return list(parts)
    shown = [part for part in parts if part["type"] != "text" and _block(part) is not None]
    return [{"type": "text", "text": text}, *shown]


def _block(part: dict[str, Any]) -> ContentBlock | None:
    """One block; None for a block that was left out because it was too large."""
    try:
        return _BLOCK.validate_python(part)
    except ValidationError:
        return None


CALL_META: Final = "toolcrib/call"
"""The key in `_meta` for the call id of a result, and why the call failed or waits."""
ARTIFACTS: Final = "toolcrib://artifacts/"
"""The URI prefix of results that were too long to send in full."""

_INVALID_RESULT: Final = "The result of `{}` does not match its output schema and was withheld."


def call_result(
    result: CallResult, output: Draft202012Validator | None, *, is_mounted: bool = False
) -> dict[str, Any]:
    """The result of `tools/call`. Structured content matches the output schema of the tool. The
    answer of a mounted tool's server is passed on item for item.
    """
    if result.status == "completed":
        return _completed(result, output, is_mounted)
    facts = meta_of(result)
    facts["failure"] = asdict(result.failure) if result.failure else None
    answer = _answer(result) if is_mounted else None
    if answer is not None:
        return _passed_on(error(result.text, facts), result, answer)
    if result.value is not None:
        facts["value"] = result.value
    return error(result.text, facts)


def _answer(result: CallResult) -> ServerAnswer | None:
    return server_answer(result.value, result.metadata) if result.metadata else None


def _passed_on(ours: dict[str, Any], result: CallResult, answer: ServerAnswer) -> dict[str, Any]:
    """Our result with the answer of a server in it: content, structured content and `_meta`."""
    ours["content"] = content_blocks(answer.content, result.text)
    if answer.structured is not None:
        ours["structuredContent"] = answer.structured
    ours["_meta"] = {**answer.meta, **ours["_meta"]}
    return ours


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
        own = {key: value for key, value in result.metadata.items() if key != ANSWER_KEY}
        if own:
            facts["metadata"] = own
    return facts


def _completed(
    result: CallResult, output: Draft202012Validator | None, is_mounted: bool
) -> dict[str, Any]:
    value: Any = result.value
    if output is not None and not output.is_valid(value):
        # A hook or a person may have replaced the result.
        facts = {**meta_of(result), "failure": {"kind": "invalid_result"}}
        return error(_INVALID_RESULT.format(result.tool), facts)
    reply: dict[str, Any] = {
        "resultType": "complete",
        "content": [{"type": "text", "text": result.text}],
        "_meta": {CALL_META: meta_of(result)},
    }
    answer = _answer(result) if is_mounted else None
    if answer is not None:
        _passed_on(reply, result, answer)
    elif isinstance(value, dict):
        reply["structuredContent"] = cast("dict[str, Any]", value)
    if result.artifact_id is not None:
        reply["content"].append(_link(result.artifact_id))
    return reply


def _link(artifact_id: str) -> dict[str, Any]:
    return {
        "type": "resource_link",
        "uri": f"{ARTIFACTS}{artifact_id}",
        "name": artifact_id,
        "description": "The full result",
        "mimeType": "text/plain",
    }
