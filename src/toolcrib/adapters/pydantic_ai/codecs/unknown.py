"""Hosted calls of tools that no other codec knows: they are recorded all the same."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final

from toolcrib.adapters.codec import Invocation, RawItem
from toolcrib.adapters.items import plain
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.errors import UnsupportedOption
from toolcrib.tools.provider_tools import HostedTool

KIND: Final = "native_tool"


class UnknownCallCodec(NativeCodec[Any, Any]):
    """The codec of every native call that no other codec knows. The kind of its invocation is the
    native tool's name, its value the raw result.
    """

    kind = KIND
    native = ""

    def __init__(self, provider: str, known: Collection[str]) -> None:
        """`known` are the names of the other codecs."""
        super().__init__(provider)
        self._known = frozenset(known)

    def serialize(self, tool: HostedTool[Any]) -> dict[str, Any]:
        why = "it is for undeclared tools; declare the tool under its own kind"
        raise UnsupportedOption(KIND, "anything", self.provider, why)

    def fields(self, config: Any) -> dict[str, Any]:
        return {}

    def is_named(self, name: str, tool: HostedTool[Any]) -> bool:
        return name.partition(":")[0] not in self._known

    def read(self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[Any]) -> Invocation:
        return _read(call)

    def combine(
        self, values: Sequence[Any], items: Sequence[RawItem], tool: HostedTool[Any]
    ) -> Any:
        return tuple(values) or None

    def parse_output(
        self, response_items: Sequence[Any], tool: HostedTool[Any]
    ) -> tuple[Invocation, ...] | None:
        """The calls themselves: nothing is known of what they gave."""
        items = [plain(item) for item in response_items]
        return tuple(self.invocations(items, tool)) or None


def _read(call: HostedCall) -> Invocation:
    failure = call.failure
    content = call.content
    return Invocation(
        item_id=call.id,
        kind=call.name or KIND,
        params=call.arguments,
        value=None if failure else content,
        message=failure or _text(content),
        success=failure is None,
        error=failure,
        raw=call.raw,
    )


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    try:
        return json.dumps(content, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(type(content).__name__)
