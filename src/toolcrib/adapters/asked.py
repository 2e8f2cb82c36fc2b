"""Calls that the model asks us to run, in whatever item, and the items that answer them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import to_json

from toolcrib.adapters.client_calls import ClientCall, ClientItems, caller_of
from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import text_of
from toolcrib.calls.executor import MAX_ID_CHARS

if TYPE_CHECKING:
    from toolcrib.calls.outcome import Outcome
    from toolcrib.calls.validate import RawArguments
    from toolcrib.session.events import ToolInvoked


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended, as far as its answer tells. Read back from a ledger, `value` is JSON."""

    text: str
    success: bool
    value: Any = None
    failure: str | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> Ended:
        """The end of a call that this process ran."""
        failure = outcome.failure.kind if outcome.failure else None
        return cls(outcome.text, outcome.ok, outcome.value, failure)

    @classmethod
    def recorded(cls, event: ToolInvoked) -> Ended:
        """The end of a call that is in the ledger."""
        failure = event.failure.kind if event.failure else None
        return cls(event.message, event.success, event.value, failure)


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that the model asks for. Without a `call_id` it cannot be answered."""

    call_id: str
    name: str
    arguments: RawArguments = field(repr=False)
    item: Item = field(repr=False)
    voice: Voice = field(repr=False)

    def answer(self, ended: Ended) -> Item:
        """The item that tells the provider how the call ended."""
        return self.voice.answer(self, ended)


def is_sound_id(call_id: str) -> bool:
    """Whether a ledger can keep the id of a call. Ids are the provider's to choose."""
    return 0 < len(call_id) <= MAX_ID_CHARS and call_id.isprintable()


class Voice(Protocol):
    """Reads one type of item as a call of ours, and writes the answer."""

    def is_call(self, item: Item) -> bool: ...

    def read(self, item: Item) -> Asked: ...

    def answer(self, asked: Asked, ended: Ended) -> Item: ...


@dataclass(frozen=True, slots=True)
class FunctionVoice:
    """Speaks for functions: `names` are ours by the name on the wire."""

    names: Mapping[str, str]

    def is_call(self, item: Item) -> bool:
        return item.get("type") == "function_call"

    def read(self, item: Item) -> Asked:
        wire_name = text_of(item, "name")
        name = self.names.get(wire_name, wire_name)
        return Asked(text_of(item, "call_id"), name, text_of(item, "arguments"), item, self)

    def answer(self, asked: Asked, ended: Ended) -> Item:
        answer = {"call_id": asked.call_id, "output": ended.text, **caller_of(asked.item)}
        return {"type": "function_call_output", **answer}


@dataclass(frozen=True, slots=True)
class CustomVoice:
    """Speaks for custom tools: their free text is one argument, `input`."""

    names: Mapping[str, str]

    def is_call(self, item: Item) -> bool:
        return item.get("type") == "custom_tool_call"

    def read(self, item: Item) -> Asked:
        wire_name = text_of(item, "name")
        name = self.names.get(wire_name, wire_name)
        arguments = to_json({"input": text_of(item, "input")}).decode()
        return Asked(text_of(item, "call_id"), name, arguments, item, self)

    def answer(self, asked: Asked, ended: Ended) -> Item:
        answer = {"call_id": asked.call_id, "output": ended.text, **caller_of(asked.item)}
        return {"type": "custom_tool_call_output", **answer}


@dataclass(frozen=True, slots=True)
class ClientVoice:
    """Speaks for items whose shape the provider owns: they are calls of the tool `name`."""

    items: ClientItems
    name: str

    def is_call(self, item: Item) -> bool:
        return self.items.is_call(item)

    def read(self, item: Item) -> Asked:
        call = self._call(item)
        return Asked(call.call_id, self.name, call.arguments, item, self)

    def answer(self, asked: Asked, ended: Ended) -> Item:
        return self.items.output_item(
            self._call(asked.item),
            ended.text,
            success=ended.success,
            value=ended.value,
            failure=ended.failure,
        )

    def _call(self, item: Item) -> ClientCall:
        return self.items.call(item, self.name) or ClientCall("", self.name, {}, item)
