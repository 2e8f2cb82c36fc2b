"""Items as they are kept: whole, as clients get them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolcrib.local.ids import new_id
from toolcrib.local.responses.request import Item

_PREFIXES: Final = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
    "compaction": "cmp",
}
_WITH_STATUS: Final = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
    }
)


@dataclass(frozen=True, slots=True)
class KeptItem:
    """An item of a conversation, and what its tool answered."""

    body: Item
    answer: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """Its name."""
        return str(self.body.get("id"))


def whole_item(item: Item) -> Item:
    """An item of the input in the official form: with an id, a type, and content in parts."""
    kind = str(item.get("type") or ("message" if "role" in item else ""))
    whole: Item = {**item, "type": kind}
    if not isinstance(item.get("id"), str):
        whole["id"] = new_id(_PREFIXES.get(kind, "item"))
    if kind in _WITH_STATUS and item.get("status") is None:
        whole["status"] = "completed"
    if kind == "message" and "content" in item:
        whole["content"] = _parts(item["content"], is_ours=item.get("role") == "assistant")
    if kind == "reasoning":
        whole.setdefault("summary", [])
    return whole


def _parts(content: object, *, is_ours: bool) -> object:
    if isinstance(content, str):
        content = [{"type": "output_text" if is_ours else "input_text", "text": content}]
    if not isinstance(content, list):
        return content
    return [_part(each) for each in cast(list[object], content)]


def _part(part: object) -> object:
    if not isinstance(part, dict):
        return part
    told = cast(dict[str, Any], part)
    match told.get("type"):
        case "output_text":
            return {"annotations": [], "logprobs": [], **told}
        case "input_image":
            return {"detail": "auto", **told}
        case _:
            return told
