"""Items as the ledger may keep them: verbatim, but for secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib.adapters.codec import Item
from toolcrib.tools.secrets import SECRET

if TYPE_CHECKING:
    from toolcrib.adapters.asked import Asked
    from toolcrib.adapters.credentials import Credentials
    from toolcrib.tools.prepared import PreparedTool

_HARMLESS: Final = frozenset({"type", "id", "call_id", "name", "status"})
"""What may be shown of a call in a shape whose secrets nobody can point at."""


def recordable(
    items: Sequence[Item],
    asked: Sequence[Asked],
    tools: Mapping[str, PreparedTool],
    credentials: Credentials,
) -> list[Any]:
    """The items without the secret arguments of our tools and the credentials of the provider's."""
    hidden = {id(each.item): _redacted(each, tools) for each in asked if _has_secrets(each, tools)}
    return [credentials.hide(hidden.get(id(item), item)) for item in items]


def _has_secrets(asked: Asked, tools: Mapping[str, PreparedTool]) -> bool:
    tool = tools.get(asked.name)
    return tool is not None and tool.redactor is not None


def _redacted(asked: Asked, tools: Mapping[str, PreparedTool]) -> Item:
    redactor = tools[asked.name].redactor
    assert redactor is not None
    if asked.item.get("type") != "function_call":
        hidden = {key: SECRET for key in asked.item if key not in _HARMLESS}
        return {**asked.item, **hidden}
    shown = redactor.redact_json(str(asked.item.get("arguments", "")))
    return {**asked.item, "arguments": to_json(shown).decode()}
