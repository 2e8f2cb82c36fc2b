"""Calls that the model asks this process to run: read from an item, answered with an item.

`ItemClassifier` sorts the items of a reply: hosted call, call for this process, message or neither.
A turn stalls until every call for this process is answered, so each readable one gets an answer,
even if only that the call failed. `ClientCodec` is for tools that the provider defines and this
process runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, cast

from pydantic_core import to_json

from toolcrib.adapters.codec import Contribution, RawItem
from toolcrib.adapters.items import (
    ContextItem,
    HostedCallItem,
    ToolCallEnd,
    ToolCallItem,
    ToolOutputItem,
    UnknownItem,
    maybe_text,
    text_of,
)
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.secrets import SECRET
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.adapters.items import ModelMessage, ReasoningItem, ReplyItem
    from toolcrib.adapters.tool_declarations import HostedDeclaration
    from toolcrib.tools.redaction import Redactor


AnyProviderTool = ProviderTool[Any, Any, Any]

UNFINISHED = frozenset({"in_progress", "incomplete"})
"""A call that was cut off has only part of its arguments."""


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A call that the model asks this process to run."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any] = field(hash=False, repr=False)
    """Not validated: fields that the item lacks are missing here too."""
    item: RawItem = field(hash=False, repr=False)
    """The item itself, verbatim."""


class ClientItems(ABC):
    """Reads one type of item that must be answered, and writes the answer."""

    call_type: ClassVar[str]
    output_type: ClassVar[str]
    id_field: ClassVar[str] = "call_id"
    """The field in which an answer names its call."""

    @abstractmethod
    def arguments(self, item: RawItem) -> dict[str, Any]:
        """The arguments of the call. Never raises: the executor refuses what is missing."""

    @abstractmethod
    def output(
        self, call: ClientCall, text: str, *, success: bool, value: Any, failure: str | None
    ) -> dict[str, Any]:
        """The fields of the answer besides its type and the id of its call."""

    def is_call(self, item: RawItem) -> bool:
        """Whether the item is a call that waits for an answer."""
        return text_of(item, "type") == self.call_type

    def id_of(self, item: RawItem) -> str:
        """The id that the answer must name; empty when the item cannot be answered."""
        return text_of(item, "call_id")

    def call(self, item: RawItem, tool_name: str) -> ClientCall | None:
        """The call of an item; None when the item is no such call or cannot be answered.

        A call that was cut off has no arguments, so that it fails instead of running by halves.
        """
        call_id = self.id_of(item)
        if not self.is_call(item) or not call_id:
            return None
        is_whole = maybe_text(item, "status") not in UNFINISHED
        return ClientCall(call_id, tool_name, self.arguments(item) if is_whole else {}, item)

    def calls(self, items: Sequence[RawItem], tool_name: str) -> list[ClientCall]:
        """Every call among the items, in order."""
        calls = (self.call(item, tool_name) for item in items)
        return [call for call in calls if call is not None]

    def redacted(self, item: RawItem, redactor: Redactor) -> RawItem:
        """The item without secret arguments. Only the provider says where those are in it, so all
        fields but the harmless ones are hidden.
        """
        return redacted_fields(item)

    def output_item(
        self,
        call: ClientCall,
        text: str,
        *,
        success: bool,
        value: Any = None,
        failure: str | None = None,
    ) -> dict[str, Any]:
        """The answer to a call: `text` is what the model sees, `value` the typed result where
        there is one, `failure` the kind of failure.
        """
        answer = self.output(call, text, success=success, value=value, failure=failure)
        return {"type": self.output_type, self.id_field: call.call_id, **answer}


class ClientCodec(ClientItems):
    """The codec of a kind of tool that the provider defines and this process runs."""

    kind: ClassVar[str]
    provider: ClassVar[str]
    config_type: ClassVar[type[Any]]
    """The type of configuration by which tools of this kind are recognised."""
    params_type: ClassVar[type[Any] | None] = None
    """The arguments of a call, where the provider defines them: a tool must take them."""

    @abstractmethod
    def serialize(self, tool: AnyProviderTool) -> dict[str, Any]:
        """The tool as an entry of the request's `tools`."""

    def contribute(self, tool: AnyProviderTool) -> Contribution:
        """Everything the request needs for this tool."""
        return Contribution((self.serialize(tool),))

    def choice(self, tool: AnyProviderTool) -> Any:
        """The `tool_choice` that makes the model use this tool."""
        return {"type": self.serialize(tool)["type"]}

    def speaks_for(self, tool: Tool[Any, Any]) -> bool:
        """Whether a tool is of this codec's kind."""
        if not isinstance(tool, ProviderTool) or tool.handler is None:
            return False
        bound = cast("AnyProviderTool", tool)
        return bound.provider == self.provider and isinstance(bound.config, self.config_type)


def present(item: RawItem, *keys: str) -> dict[str, Any]:
    """The members of an object that are there and not null, whatever their types."""
    return {key: item[key] for key in keys if item.get(key) is not None}


class CallReader(Protocol):
    """Reads one type of item as a call for this process, and writes the answer."""

    @property
    def call_type(self) -> str:
        """The type of items that it reads."""
        ...

    def is_call(self, raw: RawItem, raws: Sequence[RawItem]) -> bool:
        """Whether an item of that type, among the items of its step, is such a call."""
        ...

    def read(self, raw: RawItem) -> ToolCallItem:
        """The call. Never raises: the executor refuses what is missing."""
        ...

    def output(self, call: ToolCallItem, end: ToolCallEnd) -> ToolOutputItem:
        """The item that answers the call."""
        ...

    def redacted(self, raw: RawItem, redactor: Redactor) -> RawItem:
        """The item without the secret arguments of its tool, as the ledger may keep it."""
        ...


@dataclass(frozen=True, slots=True)
class ClientCallReader:
    """Reads items whose shape the provider owns: they are calls of the tool `name`."""

    items: ClientItems
    name: str

    @property
    def call_type(self) -> str:
        return self.items.call_type

    def is_call(self, raw: RawItem, raws: Sequence[RawItem]) -> bool:
        return self.items.is_call(raw)

    def read(self, raw: RawItem) -> ToolCallItem:
        call = self._call(raw)
        return ToolCallItem(call.call_id, self.name, call.arguments, self, raw)

    def output(self, call: ToolCallItem, end: ToolCallEnd) -> ToolOutputItem:
        raw = self.items.output_item(
            self._call(call.raw),
            end.text,
            success=end.success,
            value=end.value,
            failure=end.failure,
        )
        wire_name = text_of(call.raw, "name") or self.name
        failure = None if end.success else end.failure or "failed"
        return ToolOutputItem(call.call_id, wire_name, end.text, failure, raw)

    def redacted(self, raw: RawItem, redactor: Redactor) -> RawItem:
        return self.items.redacted(raw, redactor)

    def _call(self, raw: RawItem) -> ClientCall:
        return self.items.call(raw, self.name) or ClientCall("", self.name, {}, raw)


_PUBLIC_FIELDS: Final = frozenset({"type", "id", "call_id", "name", "status"})
"""The fields of a call that may be kept when nothing says where its secrets are."""


def redacted_arguments(raw: RawItem, redactor: Redactor) -> RawItem:
    """An item whose `arguments` are the tool's own, as JSON text, without the secret ones."""
    shown = redactor.redact_json(str(raw.get("arguments", "")))
    return {**raw, "arguments": to_json(shown).decode()}


def redacted_fields(raw: RawItem) -> RawItem:
    """An item of any other shape: everything hidden that may be secret."""
    return {**raw, **{key: SECRET for key in raw if key not in _PUBLIC_FIELDS}}


class ItemFormat(Protocol):
    """How one provider writes the items of a reply."""

    def read(self, raw: RawItem) -> ModelMessage | ReasoningItem | ContextItem | None:
        """An item that is no call; None for one that may be a call, or is unknown."""
        ...

    def is_answered(self, raw: RawItem, raws: Sequence[RawItem]) -> bool:
        """Whether the provider itself answered a call: then the call was its own."""
        ...

    def hosted_call(self, raw: RawItem, declaration: HostedDeclaration) -> HostedCallItem:
        """The item as a call of this tool that the provider ran."""
        ...

    def unknown(self, raw: RawItem) -> HostedCallItem | UnknownItem:
        """An item of a type that no codec knows. One that is a call all the same is recorded."""
        ...

    def without_text(self, raw: RawItem) -> RawItem:
        """A message without its text, and its annotations without places."""
        ...

    def said(self, text: str) -> list[RawItem]:
        """A reply of this text, for what another model said."""
        ...


class ItemClassifier:
    """Reads the items of a turn. Declared tools come first; the provider may also send calls of
    tools that the prompt does not declare: hosted ones are recorded, others are answered.

    `readers` are for calls that wait for an answer, `fallbacks` (by item type) for such calls of
    tools that the prompt does not declare, `stand_ins` for hosted tools that it does not declare.
    """

    def __init__(
        self,
        hosted: Sequence[HostedDeclaration],
        readers: Sequence[CallReader],
        stand_ins: Sequence[HostedDeclaration],
        item_format: ItemFormat,
        fallbacks: Mapping[str, CallReader] | None = None,
    ) -> None:
        self._hosted = hosted
        self._readers: dict[str, list[CallReader]] = {}
        for reader in readers:
            self._readers.setdefault(reader.call_type, []).append(reader)
        self._fallbacks = fallbacks or {}
        self._stand_ins = stand_ins
        self.format = item_format

    def items(self, raws: Sequence[RawItem]) -> list[ReplyItem]:
        """The items of one step, in order."""
        return [self.item(raw, raws) for raw in raws]

    def item(self, raw: RawItem, raws: Sequence[RawItem]) -> ReplyItem:
        """One item among the items of its step."""
        declared = _owner(self._hosted, raw)
        if declared is not None:
            return self.format.hosted_call(raw, declared)
        kind = text_of(raw, "type")
        readers = [*self._readers.get(kind, ()), *filter(None, (self._fallbacks.get(kind),))]
        if readers and not self.format.is_answered(raw, raws):
            for reader in readers:
                if reader.is_call(raw, raws):
                    return reader.read(raw)
        item = self.format.read(raw)
        if item is not None:
            return item
        stand_in = _owner(self._stand_ins, raw)
        return self.format.hosted_call(raw, stand_in) if stand_in else self.format.unknown(raw)


def _owner(declarations: Sequence[HostedDeclaration], raw: RawItem) -> HostedDeclaration | None:
    for declaration in declarations:
        if declaration.is_call(raw):
            return declaration
    return None
