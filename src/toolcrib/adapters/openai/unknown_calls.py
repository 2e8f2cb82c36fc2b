"""Calls that no other codec knows: providers of the Responses API have tools of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.codec import Codec, Invocation, RawItem, failure_of
from toolcrib.adapters.items import json_object_of, maybe_text, text_of
from toolcrib.errors import UsageError
from toolcrib.tools.provider_tools import HostedTool

UNKNOWN: Final = "unknown"

_KIND: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
# A program runs at the provider, and its result may come in a later response.
_PROGRAM: Final = frozenset({"program", "program_output"})
_ASKED: Final = ("name", "action", "arguments", "code", "input", "queries", "query")
_TOLD: Final = ("result", "output")


class OpenAIUnknownCodec(Codec[Any, Any]):
    """Makes an invocation of any call, as far as that can be done without knowing its kind: what
    was asked is told by the fields that calls usually have, and the rest is in `raw`.
    """

    call_types: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, kind: str = UNKNOWN) -> None:
        self.kind = kind

    def serialize(self, tool: HostedTool[Any]) -> dict[str, Any]:
        raise UsageError(f"no codec knows {tool.kind!r}; give the adapter one that does")

    def is_call(self, item: RawItem, tool: HostedTool[Any]) -> bool:
        return is_any_call(item)

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[Any]
    ) -> Invocation:
        failure = failure_of(item)
        told = next((text for key in _TOLD if (text := text_of(item, key))), None)
        return Invocation(
            item_id=text_of(item, "id"),
            kind=self.kind,
            params=_asked(item),
            value=None if failure else told,
            message=failure or told or maybe_text(item, "status") or "completed",
            success=failure is None,
            error=failure,
            raw=item,
        )

    def parse_output(self, response_items: Sequence[Any], tool: HostedTool[Any]) -> None:
        return None


def is_any_call(item: RawItem) -> bool:
    """Whether an item is a call, by the habit of its provider's names."""
    kind = text_of(item, "type")
    return kind.endswith("_call") or kind in _PROGRAM


def kind_of(item: RawItem) -> str:
    """What to call the kind of an item that nobody knows."""
    kind = text_of(item, "type").removesuffix("_call").removesuffix("_output")
    return kind if _KIND.fullmatch(kind) else UNKNOWN


def _asked(item: RawItem) -> dict[str, Any]:
    found = {key: item[key] for key in _ASKED if item.get(key)}
    arguments = json_object_of(item, "arguments")
    return {**found, "arguments": arguments} if arguments else found
