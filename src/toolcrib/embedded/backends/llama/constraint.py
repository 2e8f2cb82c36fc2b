"""The JSON schema of one step of a small model: one call or one answer.

Small models do not keep to a format and do not end a long text by themselves. So the schema is
enforced while they write, and every text and list in it is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from toolcrib.embedded.backend import BackendTool, OutputFormat

LONGEST_ANSWER: Final = 1500
LONGEST_TEXT: Final = 400
LONGEST_CODE: Final = 2000
MAX_MEMBERS: Final = 16
_DROPPED: Final = frozenset({"title", "description", "examples", "default", "$schema", "format"})


def constraint_for(
    tools: Sequence[BackendTool], output: OutputFormat, *, may_answer: bool
) -> dict[str, Any]:
    """The schema of one step."""
    forms = [_call_form(tool) for tool in tools]
    if may_answer or not forms:
        forms.append(_answer_form(output))
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _call_form(tool: BackendTool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"tool": {"const": tool.name}, "arguments": bounded(tool.parameters)},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def _answer_form(output: OutputFormat) -> dict[str, Any]:
    answer: dict[str, Any] = {"type": "string", "maxLength": LONGEST_ANSWER}
    if output.kind == "json_object":
        answer = {"type": "object"}
    elif output.schema is not None:
        answer = bounded(output.schema)
    return {
        "type": "object",
        "properties": {"answer": answer},
        "required": ["answer"],
        "additionalProperties": False,
    }


def bounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a schema with bounds on every text and every list."""
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED:
            continue
        if key in ("enum", "const"):
            found[key] = value
        elif key in ("properties", "$defs", "definitions"):
            members = cast(Mapping[str, Any], value)
            found[key] = {name: _member(name, each) for name, each in members.items()}
        else:
            found[key] = _inner(value)
    if found.get("type") == "string" and "enum" not in found and "const" not in found:
        found["maxLength"] = min(found.get("maxLength", LONGEST_TEXT), LONGEST_TEXT)
    if found.get("type") == "array":
        found["maxItems"] = min(found.get("maxItems", MAX_MEMBERS), MAX_MEMBERS)
    if found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def _member(name: str, schema: Any) -> Any:
    if name == "code" and isinstance(schema, Mapping):
        inner = bounded(cast(Mapping[str, Any], schema))
        return {**inner, "maxLength": LONGEST_CODE} if "maxLength" in inner else inner
    return _inner(schema)


def _inner(value: Any) -> Any:
    if isinstance(value, Mapping):
        return bounded(cast(Mapping[str, Any], value))
    if isinstance(value, list):
        return [_inner(each) for each in cast(list[Any], value)]
    return value
