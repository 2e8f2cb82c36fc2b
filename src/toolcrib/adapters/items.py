"""The items of a conversation, as a closed union of frozen types, and readers of their JSON.

`ReplyItem` is what a provider sends; each carries its JSON (`raw`), which codecs read, the ledger
keeps and the next request sends back. `UserMessage` and `ToolOutputItem` are what this side sends.
Each provider's package converts between its JSON and items.

The readers (`text_of`, `mapping_of` and the like) never raise. SDKs return objects of the wrong
class for types that they do not know, so fields are read from plain JSON and none is assumed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from toolcrib.calls.recorded_call import MAX_ID_CHARS
from toolcrib.tools.citations import AnyCitation

if TYPE_CHECKING:
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.tool_calls import CallReader
    from toolcrib.adapters.tool_declarations import HostedDeclaration
    from toolcrib.calls.outcome import Outcome
    from toolcrib.calls.validate import RawArguments
    from toolcrib.ledger.events import ToolInvoked


@dataclass(frozen=True, slots=True)
class TextContent:
    """A text in a prompt's message."""

    text: str


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that lies with the provider."""

    file_id: str
    is_image: bool
    media_type: str | None = None
    """None when nothing tells it."""


@dataclass(frozen=True, slots=True)
class InlineFile:
    """A file that is sent with the message."""

    name: str
    media_type: str
    data: str = field(repr=False)
    """The bytes as base64."""
    is_image: bool


PromptContent: TypeAlias = TextContent | UploadedFile | InlineFile


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A prompt: its text and attachments."""

    content: tuple[PromptContent, ...]


@dataclass(frozen=True, slots=True)
class ToolOutputItem:
    """The answer to a `ToolCallItem`."""

    call_id: str
    tool_name: str
    """The name of the tool on the wire."""
    text: str = field(repr=False)
    failure: str | None
    """The kind of failure; None when the call succeeded."""
    raw: RawItem = field(hash=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """How a call ended, as its answer tells the model. From the ledger, `value` is JSON."""

    text: str
    success: bool
    value: Any = None
    failure: str | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> ToolCallEnd:
        """The end of a call that this process ran."""
        failure = outcome.failure.kind if outcome.failure else None
        return cls(outcome.text, outcome.ok, outcome.value, failure)

    @classmethod
    def recorded(cls, event: ToolInvoked) -> ToolCallEnd:
        """The end of a call that is in the ledger."""
        failure = event.failure.kind if event.failure else None
        return cls(event.message, event.success, event.value, failure)


@dataclass(frozen=True, slots=True)
class Annotation:
    """A note on one text of a message. Its indexes count from the start of that text."""

    kind: str
    """The provider's word for it."""
    start: int | None
    end: int | None
    """Exclusive."""
    index: int | None
    citation: AnyCitation | None
    """What it cites, without a place; None when it cites nothing that is known."""
    raw: RawItem = field(hash=False, repr=False)


@dataclass(frozen=True, slots=True)
class MessageText:
    """One text of a message, with the annotations on it."""

    text: str
    annotations: tuple[Annotation, ...] = ()


Phase = Literal["commentary", "final_answer"]
"""Whether a message is a remark on the way or the answer, where a model distinguishes the two."""


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """A message of the model."""

    texts: tuple[MessageText, ...]
    raw: RawItem = field(hash=False, repr=False)
    phase: Phase | None = None
    refusal: str | None = None
    """The words in which the model refused; None when it did not."""

    @property
    def text(self) -> str:
        """All texts of the message, in order."""
        return "".join(part.text for part in self.texts)


@dataclass(frozen=True, slots=True)
class ReasoningItem:
    """What the model thought before it answered or called."""

    raw: RawItem = field(hash=False, repr=False)
    texts: tuple[str, ...] = ()
    """What it lets others read of it."""
    is_continued: bool = False
    """Whether its text goes on from the reasoning before it in the same reply."""


@dataclass(frozen=True, slots=True)
class ToolCallItem:
    """A call that the model asks this process to run."""

    call_id: str
    """Empty when the item has none; such a call cannot be answered."""
    name: str
    """The tool's own name, not the one on the wire."""
    arguments: RawArguments = field(hash=False, repr=False)
    reader: CallReader = field(hash=False, repr=False)
    raw: RawItem = field(hash=False, repr=False)

    def output(self, end: ToolCallEnd) -> ToolOutputItem:
        """The item that tells the provider how the call ended."""
        return self.reader.output(self, end)


@dataclass(frozen=True, slots=True)
class HostedCallItem:
    """A call that the provider ran."""

    declaration: HostedDeclaration = field(hash=False)
    """The tool it belongs to; a stand-in when the prompt declares none for it."""
    item_id: str
    status: str | None
    failure: str | None
    """Why the provider could not run it; None when it did."""
    raw: RawItem = field(hash=False, repr=False)
    unknown_type: str | None = None
    """The type of an item that no codec knows; None for a known one."""


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A known item that asks for nothing and answers nothing: the provider's output of a call of
    its own, a compaction, a server's list of tools.
    """

    raw: RawItem = field(hash=False, repr=False)


@dataclass(frozen=True, slots=True)
class UnknownItem:
    """An item of a type that this version does not know."""

    type: str
    raw: RawItem = field(hash=False, repr=False)


ReplyItem: TypeAlias = (
    ModelMessage | ReasoningItem | ToolCallItem | HostedCallItem | ContextItem | UnknownItem
)
"""One item of a provider's reply."""

Item: TypeAlias = ReplyItem | UserMessage | ToolOutputItem
"""One item of a conversation."""


def tool_calls(items: Iterable[ReplyItem]) -> list[ToolCallItem]:
    """The calls among the items that wait for an answer of this process, in order."""
    return [item for item in items if isinstance(item, ToolCallItem)]


def is_sound_id(call_id: str) -> bool:
    """Whether a ledger can keep the id of a call. Ids are the provider's to choose."""
    return 0 < len(call_id) <= MAX_ID_CHARS and call_id.isprintable()


def plain(item: Any) -> dict[str, Any]:
    """An item as plain JSON, whether the SDK gave a model or a mapping."""
    if isinstance(item, Mapping):
        return dict(cast("Mapping[str, Any]", item))
    dump = getattr(item, "model_dump", None)
    if not callable(dump):
        return {}
    # What the SDK did not expect is no reason to warn whoever asked.
    dumped = dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    return cast("dict[str, Any]", dumped) if isinstance(dumped, dict) else {}


class ReadableItem(dict[str, Any]):
    """An item whose keys can also be read as attributes, as SDKs give their objects."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the item has no {name!r}") from None


def readable(data: Any) -> Any:
    """JSON whose objects can also be read by attribute, at every depth."""
    if isinstance(data, Mapping):
        members = cast("Mapping[str, Any]", data)
        return ReadableItem({key: readable(value) for key, value in members.items()})
    if isinstance(data, list):
        return [readable(member) for member in cast("list[Any]", data)]
    return data


def text_of(item: Mapping[str, Any], key: str) -> str:
    """A text field; empty when it is missing or something else."""
    value = item.get(key)
    return value if isinstance(value, str) else ""


def maybe_text(item: Mapping[str, Any], key: str) -> str | None:
    """A text field; None when it is missing or something else."""
    value = item.get(key)
    return value if isinstance(value, str) else None


def maybe_int(item: Mapping[str, Any], key: str) -> int | None:
    """A whole number; None when it is missing or something else."""
    value = item.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def maybe_float(item: Mapping[str, Any], key: str) -> float | None:
    """A number; None when it is missing or something else."""
    value = item.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def mapping_of(item: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object field; empty when it is missing or something else."""
    value = item.get(key)
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def mappings_of(item: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects of a list field; what is no object is passed over."""
    value = item.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    dumped = cast("Sequence[Any]", value)
    return [
        dict(cast("Mapping[str, Any]", member)) for member in dumped if isinstance(member, Mapping)
    ]


def texts_of(item: Mapping[str, Any], key: str) -> list[str]:
    """The texts of a list field; what is no text is passed over."""
    value = item.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [member for member in cast("Sequence[Any]", value) if isinstance(member, str)]


def json_object_of(item: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object that a text field spells out as JSON; empty when it is anything else."""
    try:
        return mapping_of({"read": json.loads(text_of(item, key))}, "read")
    except (ValueError, RecursionError):
        return {}
