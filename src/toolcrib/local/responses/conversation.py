"""A conversation as a brain reads it, from the items of the wire."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast, get_args

from toolcrib.local.brain import Answered, Called, Role, Said, Turn
from toolcrib.local.faults import invalid
from toolcrib.local.responses.compacting import read_compaction
from toolcrib.local.responses.request import Item

SILENT: Final = frozenset({"reasoning", "mcp_list_tools", "mcp_approval_request"})
"""Items that a brain is not told of; the tools that they belong to read them."""

HOSTED: Final = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "python",
    "mcp_call": "",
    "shell_call": "shell",
}
"""By the type of an item: the name that brains call its tool by. An mcp call has its own."""

_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_OUTPUTS: Final = frozenset(
    {"function_call_output", "custom_tool_call_output", "shell_call_output"}
)

Recall = Callable[[str], Mapping[str, Any] | None]
"""By an item's id: what its tool answered, if that was kept."""


class Conversation:
    """Everything that was said and done, in order."""

    def __init__(self, recall: Recall) -> None:
        self.items: list[Item] = []
        self.turns: list[Turn] = []
        self._recall = recall
        self._names: dict[str, str] = {}

    def read(self, items: Iterable[Item], param: str = "input") -> None:
        """Add items. Raises `ApiFault` naming the one that cannot be read."""
        for at, item in enumerate(items):
            self.turns += self._turns(item, f"{param}[{at}]")
            self.items.append(item)

    def _turns(self, item: Item, param: str) -> list[Turn]:
        kind = item.get("type", "message" if "role" in item else None)
        if kind == "message":
            return [_said(item, param)]
        if kind == "mcp_approval_response":
            return self._denied(item)
        if kind in SILENT:
            return []
        if kind == "compaction":
            return [read_compaction(item, param)]
        if kind in _CALLS:
            return [self._called(item, param)]
        if kind in _OUTPUTS:
            return self._answered(item, param)
        if kind in HOSTED:
            return self._hosted(item, HOSTED[kind] or _mcp_name(item))
        raise invalid(f"Unknown type of item: {str(kind)[:80]!r}.", f"{param}.type")

    def _called(self, item: Item, param: str) -> Called:
        call_id, name = _text(item, "call_id", param), _text(item, "name", param)
        self._names[call_id] = name
        key = "arguments" if item["type"] == "function_call" else "input"
        return Called(call_id, name, _text(item, key, param))

    def _answered(self, item: Item, param: str) -> list[Turn]:
        call_id = _text(item, "call_id", param)
        if item["type"] == "shell_call_output":
            # One with an id is of a hosted call, whose answer came with the call.
            told = json.dumps(item.get("output"))
            return [] if item.get("id") else [Answered(call_id, "shell", told)]
        if call_id not in self._names:
            raise invalid(f"No tool call found for call_id {call_id[:80]!r}.", param)
        output = item.get("output")
        text = output if isinstance(output, str) else _parts_text(output, f"{param}.output")
        return [Answered(call_id, self._names[call_id], text, _parsed(text))]

    def _denied(self, item: Item) -> list[Turn]:
        """A call that a person did not allow. One that was allowed has an item of its own."""
        asked_id = item.get("approval_request_id")
        for asked in self.items:
            is_asked = asked.get("type") == "mcp_approval_request" and asked.get("id") == asked_id
            if is_asked and item.get("approve") is not True:
                name, why = _mcp_name(asked), item.get("reason") or "no reason was given"
                call_id, arguments = str(asked_id), str(asked.get("arguments") or "{}")
                told = f"The user did not allow this call: {why}"
                return [Called(call_id, name, arguments), Answered(call_id, name, told)]
        return []

    def _hosted(self, item: Item, name: str) -> list[Turn]:
        """A call of the provider's own. What it answered is recalled, or as far as it shows."""
        item_id = str(item.get("id", ""))
        kept = self._recall(item_id) or {}
        arguments = kept.get("arguments") or json.dumps(_shown_arguments(item))
        text = kept.get("text")
        told = text if isinstance(text, str) else json.dumps(_shown_answer(item))
        return [
            Called(item_id, kept.get("name", name), arguments),
            Answered(
                item_id,
                kept.get("name", name),
                told,
                kept.get("value"),
                tuple(kept.get("marks", ())),
            ),
        ]


def _said(item: Item, param: str) -> Said:
    role = item.get("role")
    if role not in get_args(Role):
        raise invalid(f"Unknown role: {str(role)[:80]!r}.", f"{param}.role")
    content = item.get("content")
    if isinstance(content, str):
        return Said(cast(Role, role), content)
    images = [
        str(part["image_url"])
        for part in _parts(content, f"{param}.content")
        if part.get("type") == "input_image" and part.get("image_url")
    ]
    return Said(cast(Role, role), _parts_text(content, f"{param}.content"), tuple(images))


def _parts(content: object, param: str) -> list[dict[str, Any]]:
    if not isinstance(content, list):
        raise invalid("Content must be text or a list of parts.", param)
    for at, part in enumerate(cast(list[object], content)):
        if not isinstance(part, dict):
            raise invalid("A part must be an object.", f"{param}[{at}]")
    return cast(list[dict[str, Any]], content)


def _parts_text(content: object, param: str) -> str:
    texts: list[str] = []
    for at, part in enumerate(_parts(content, param)):
        match part.get("type"):
            case "input_text" | "output_text" | "text" | "refusal" as kind:
                texts.append(str(part.get("refusal" if kind == "refusal" else "text", "")))
            case "input_image" | "computer_screenshot":
                continue
            case "input_file":
                texts.append(f"[file {part.get('filename') or part.get('file_id') or ''}]")
            case other:
                raise invalid(f"Unknown type of part: {str(other)[:80]!r}.", f"{param}[{at}].type")
    return "\n".join(texts)


def _text(item: Item, key: str, param: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise invalid(f"'{key}' must be text.", f"{param}.{key}")
    return value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _mcp_name(item: Item) -> str:
    return f"{item.get('server_label')}__{item.get('name')}"


def _shown_arguments(item: Item) -> Any:
    match item.get("type"):
        case "code_interpreter_call":
            return {"code": item.get("code")}
        case "file_search_call":
            return {"queries": item.get("queries")}
        case "mcp_call":
            return _parsed(str(item.get("arguments"))) or {}
        case _:
            return item.get("action") or {}


def _shown_answer(item: Item) -> Any:
    shown = {key: item.get(key) for key in ("status", "outputs", "results", "output", "error")}
    return {key: value for key, value in shown.items() if value is not None}
