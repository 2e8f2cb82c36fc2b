"""Bases of the codecs for pydantic-ai.

`NativeCodec` checks a tool against the support matrix and reads a call together with its result.
`RefusedCodec` is for a kind that pydantic-ai has on no provider.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

from toolcrib.adapters.codec import Codec, Contribution, Invocation, RawItem
from toolcrib.adapters.items import text_of
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import (
    HostedCall,
    hosted_call_of,
    hosted_calls,
)
from toolcrib.adapters.pydantic_ai.parts import NATIVE_CALL, NATIVE_RETURN
from toolcrib.adapters.support import check, options_of
from toolcrib.errors import UnsupportedOption
from toolcrib.tools.provider_tools import HostedTool

C = TypeVar("C")
O = TypeVar("O")  # noqa: E741


class NativeCodec(Codec[C, O]):
    """The codec of a kind that pydantic-ai declares as one of its native tools.

    `provider` is a column of the support matrix. An entry is plain JSON: the native tool's kind
    under `type`, and its fields.
    """

    call_types: ClassVar[frozenset[str]] = frozenset({NATIVE_CALL})
    native: ClassVar[str]
    """pydantic-ai's name of the tool."""

    def __init__(self, provider: str) -> None:
        self.provider = provider

    @abstractmethod
    def fields(self, config: C) -> dict[str, Any]:
        """The fields of the native tool."""

    def settings(self, config: C) -> dict[str, Any]:
        """The model settings that the tool needs."""
        return {}

    @abstractmethod
    def read(self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[C]) -> Invocation:
        """The invocation of one call with its result."""

    def serialize(self, tool: HostedTool[C]) -> dict[str, Any]:
        check(self.provider, self.kind, options_of(tool.config))
        return {"type": self.native, **self.fields(tool.config)}

    def contribute(self, tool: HostedTool[C]) -> Contribution:
        return Contribution((self.serialize(tool),), body=self.settings(tool.config))

    def is_named(self, name: str, tool: HostedTool[C]) -> bool:
        """Whether a native tool of this name is the codec's."""
        return name == self.native

    def is_call(self, item: RawItem, tool: HostedTool[C]) -> bool:
        return super().is_call(item, tool) and self.is_named(text_of(item, "name"), tool)

    def is_result(self, item: RawItem, tool: HostedTool[C]) -> bool:
        """Whether the item is the result of a call of this tool."""
        is_return = text_of(item, "type") == NATIVE_RETURN
        return is_return and self.is_named(text_of(item, "name"), tool)

    def is_over(self, item: RawItem, items: Sequence[RawItem]) -> bool:
        """Whether the result is there: it may come in a later step, after client tools ran."""
        return text_of(item, "type") != NATIVE_CALL or bool(hosted_call_of(item, items).result_item)

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[C]
    ) -> Invocation:
        """One call, from its own item or from the item of its result."""
        return self.read(hosted_call_of(item, items), items, tool)

    def invocations(self, items: Sequence[RawItem], tool: HostedTool[C]) -> list[Invocation]:
        return [self.read(call, items, tool) for call in self.hosted_calls(items, tool)]

    def hosted_calls(self, items: Sequence[RawItem], tool: HostedTool[C]) -> list[HostedCall]:
        """Every call of this tool in order, and results whose calls were in earlier steps."""
        return [
            call
            for call in hosted_calls(items)
            if self.is_call(call.call_item, tool)
            or (not call.call_item and self.is_result(call.result_item, tool))
        ]


class RefusedCodec:
    """Refuses to declare a tool, with the reason from the support matrix."""

    call_types: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, provider: str, kind: str) -> None:
        self.provider = provider
        self.kind = kind

    def serialize(self, tool: HostedTool[Any]) -> NoReturn:
        """Always raises `UnsupportedOption`."""
        check(self.provider, self.kind, options_of(tool.config))
        raise UnsupportedOption(self.kind, "anything", self.provider, "it has no codec")

    def parse_output(self, response_items: Sequence[Any], tool: HostedTool[Any]) -> None:
        """None: a tool that is not declared does not run."""
