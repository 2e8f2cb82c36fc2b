"""Hosted calls without a codec of their own: providers of the Responses API add tools of theirs."""

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
_PARAM_KEYS: Final = ("name", "action", "arguments", "code", "input", "queries", "query")
_OUTPUT_KEYS: Final = ("result", "output")


class OpenAIUnknownCodec(Codec[Any, Any]):
    """Makes an invocation of a call of any kind. Its params and output come from the fields that
    calls usually have; every other field is in `raw` only.
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
        output = next((text for key in _OUTPUT_KEYS if (text := text_of(item, key))), None)
        return Invocation(
            item_id=text_of(item, "id"),
            kind=self.kind,
            params=_params(item),
            value=None if failure else output,
            message=failure or output or maybe_text(item, "status") or "completed",
            success=failure is None,
            error=failure,
            raw=item,
        )

    def combine(
        self, values: Sequence[Any], items: Sequence[RawItem], tool: HostedTool[Any]
    ) -> Any:
        return values[-1] if values else None


def is_any_call(item: RawItem) -> bool:
    """Whether an item is a call, by the naming convention of the Responses API."""
    kind = text_of(item, "type")
    return kind.endswith("_call") or kind in _PROGRAM


def kind_of(item: RawItem) -> str:
    """The kind of a call that no codec knows, derived from the type of its item."""
    kind = text_of(item, "type").removesuffix("_call").removesuffix("_output")
    return kind if _KIND.fullmatch(kind) else UNKNOWN


def _params(item: RawItem) -> dict[str, Any]:
    params = {key: item[key] for key in _PARAM_KEYS if item.get(key)}
    arguments = json_object_of(item, "arguments")
    return {**params, "arguments": arguments} if arguments else params
