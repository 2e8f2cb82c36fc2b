"""What the codecs for pydantic-ai share: a tool that its provider cannot do is refused, and a call
is read together with its answer.

A kind that pydantic-ai offers nowhere: it is known, so the error can say more than that.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

from toolcrib.adapters.codec import Codec, Contribution, Invocation, RawItem
from toolcrib.adapters.json_fields import text_of
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
    """Speaks for a kind that pydantic-ai declares as one of its native tools.

    `provider` is a column of the support matrix. An entry is plain JSON: the native tool's kind
    under `type`, and its fields.
    """

    call_types: ClassVar[frozenset[str]] = frozenset({NATIVE_CALL})
    native: ClassVar[str]
    """What pydantic-ai calls the tool."""

    def __init__(self, provider: str) -> None:
        self.provider = provider

    @abstractmethod
    def fields(self, config: C) -> dict[str, Any]:
        """The fields of the native tool."""

    def settings(self, config: C) -> dict[str, Any]:
        """Settings of the model that the tool needs besides."""
        return {}

    @abstractmethod
    def read(self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[C]) -> Invocation:
        """One call with its answer."""

    def serialize(self, tool: HostedTool[C]) -> dict[str, Any]:
        check(self.provider, self.kind, options_of(tool.config))
        return {"type": self.native, **self.fields(tool.config)}

    def contribute(self, tool: HostedTool[C]) -> Contribution:
        return Contribution((self.serialize(tool),), body=self.settings(tool.config))

    def is_named(self, name: str, tool: HostedTool[C]) -> bool:
        """Whether a native tool of this name is the one that the codec speaks for."""
        return name == self.native

    def is_call(self, item: RawItem, tool: HostedTool[C]) -> bool:
        return super().is_call(item, tool) and self.is_named(text_of(item, "name"), tool)

    def is_result(self, item: RawItem, tool: HostedTool[C]) -> bool:
        """Whether the item is the answer to a call of this tool."""
        is_return = text_of(item, "type") == NATIVE_RETURN
        return is_return and self.is_named(text_of(item, "name"), tool)

    def is_over(self, item: RawItem, items: Sequence[RawItem]) -> bool:
        """A call may be answered in a later step, when tools of ours were called beside it."""
        return text_of(item, "type") != NATIVE_CALL or bool(hosted_call_of(item, items).result_item)

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[C]
    ) -> Invocation:
        """One call, from its own item or from that of its answer."""
        return self.read(hosted_call_of(item, items), items, tool)

    def invocations(self, items: Sequence[RawItem], tool: HostedTool[C]) -> list[Invocation]:
        return [self.read(each, items, tool) for each in self.hosted_calls(items, tool)]

    def hosted_calls(self, items: Sequence[RawItem], tool: HostedTool[C]) -> list[HostedCall]:
        """Every call of this tool, in order, and answers whose calls were made before."""
        return [
            each
            for each in hosted_calls(items)
            if self.is_call(each.call_item, tool)
            or (not each.call_item and self.is_result(each.result_item, tool))
        ]


class RefusedCodec:
    """Refuses to declare a tool, for the reason that the support matrix gives."""

    call_types: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, provider: str, kind: str) -> None:
        self.provider = provider
        self.kind = kind

    def serialize(self, tool: HostedTool[Any]) -> NoReturn:
        """Always raises `UnsupportedOption`."""
        check(self.provider, self.kind, options_of(tool.config))
        raise UnsupportedOption(self.kind, "anything", self.provider, "no codec speaks for it")

    def parse_output(self, response_items: Sequence[Any], tool: HostedTool[Any]) -> None:
        """Nothing: what is not offered is not run."""
