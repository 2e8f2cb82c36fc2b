"""Calls that the model asks this process to run: read from an item, answered with an item.

A turn stalls until such an item is answered, so every readable one gets an answer, if only that the
call failed. `ClientCodec` is for tools that the provider defines and this process runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, cast

from pydantic_core import to_json

from toolcrib.adapters.codec import Contribution, RawItem
from toolcrib.adapters.items import ToolCallEnd, ToolCallItem, ToolOutputItem
from toolcrib.adapters.json_fields import maybe_text, text_of
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.secrets import SECRET
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
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
