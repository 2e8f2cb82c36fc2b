"""Items of the Responses API: JSON read into items, and items written as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from pydantic_core import to_json

from toolcrib.adapters.answer import PlacedAnnotation, placed_annotations
from toolcrib.adapters.codec import RawItem, failure_of
from toolcrib.adapters.items import (
    Annotation,
    ContextItem,
    HostedCallItem,
    InlineFile,
    Item,
    MessageText,
    ModelMessage,
    Phase,
    PromptContent,
    ReasoningItem,
    TextContent,
    ToolCallEnd,
    ToolCallItem,
    ToolOutputItem,
    UnknownItem,
    UploadedFile,
    UserMessage,
    mapping_of,
    mappings_of,
    maybe_int,
    maybe_text,
    text_of,
)
from toolcrib.adapters.openai.unknown_calls import OpenAIUnknownCodec, is_any_call, kind_of
from toolcrib.adapters.tool_calls import redacted_arguments, redacted_fields
from toolcrib.adapters.tool_declarations import HostedDeclaration, undeclared
from toolcrib.tools.citations import (
    AnyCitation,
    Citation,
    ContainerFileCitation,
    FileCitation,
    FilePathCitation,
)

if TYPE_CHECKING:
    from toolcrib.tools.redaction import Redactor

CONTEXT_TYPES: Final = frozenset(
    {
        "compaction",
        "compaction_summary",
        "function_call_output",
        "custom_tool_call_output",
        "shell_call_output",
        "tool_search_output",
        "mcp_list_tools",
    }
)
"""Types of items that are neither message nor call."""

_PLACES: Final = frozenset({"start_index", "end_index", "index"})
_PHASES: Final = frozenset({"commentary", "final_answer"})


class ResponsesFormat:
    """Reads the items of a response. `context_types` are neither message nor call."""

    def __init__(self, context_types: frozenset[str] = CONTEXT_TYPES) -> None:
        self._context_types = context_types

    def read(self, raw: RawItem) -> ModelMessage | ReasoningItem | ContextItem | None:
        match text_of(raw, "type"):
            case "message":
                return read_message(raw)
            case "reasoning":
                return ReasoningItem(raw, _reasoning(raw))
            case kind if kind in self._context_types:
                return ContextItem(raw)
            case _:
                return None

    def is_answered(self, raw: RawItem, raws: Sequence[RawItem]) -> bool:
        call_id = text_of(raw, "call_id")
        return bool(call_id) and any(
            text_of(other, "call_id") == call_id and text_of(other, "type").endswith("_output")
            for other in raws
        )

    def hosted_call(self, raw: RawItem, declaration: HostedDeclaration) -> HostedCallItem:
        status = maybe_text(raw, "status")
        return HostedCallItem(declaration, text_of(raw, "id"), status, failure_of(raw), raw)

    def unknown(self, raw: RawItem) -> HostedCallItem | UnknownItem:
        kind = text_of(raw, "type") or "unknown"
        if not is_any_call(raw):
            return UnknownItem(kind, raw)
        capability = kind_of(raw)
        stand_in = HostedDeclaration(undeclared(capability), OpenAIUnknownCodec(capability))
        status = maybe_text(raw, "status")
        return HostedCallItem(stand_in, text_of(raw, "id"), status, failure_of(raw), raw, kind)

    def without_text(self, raw: RawItem) -> RawItem:
        return {**raw, "content": [_emptied(part) for part in mappings_of(raw, "content")]}

    def said(self, text: str) -> list[RawItem]:
        return [{"type": "message", "role": "assistant", "content": text}]


RESPONSES_FORMAT: Final = ResponsesFormat()
PROGRAM_FORMAT: Final = ResponsesFormat(CONTEXT_TYPES | {"program_output"})
"""For prompts that declare programs: the codec of those reads what they gave back."""


def read_message(raw: RawItem) -> ModelMessage:
    """A message of the model. Missing and unknown fields are passed over."""
    texts: list[MessageText] = []
    refusal: str | None = None
    for part in mappings_of(raw, "content"):
        if part.get("type") == "output_text":
            notes = tuple(read_annotation(note) for note in mappings_of(part, "annotations"))
            texts.append(MessageText(text_of(part, "text"), notes))
        elif part.get("type") == "refusal" and refusal is None:
            refusal = text_of(part, "refusal") or "it does not say why"
    phase = text_of(raw, "phase")
    known_phase = cast("Phase", phase) if phase in _PHASES else None
    return ModelMessage(tuple(texts), raw, known_phase, refusal)


def _reasoning(raw: RawItem) -> tuple[str, ...]:
    parts = [*mappings_of(raw, "summary"), *mappings_of(raw, "content")]
    return tuple(text for part in parts if (text := text_of(part, "text")))


def read_annotation(note: RawItem) -> Annotation:
    """One annotation. Missing fields are None."""
    kind = text_of(note, "type")
    return Annotation(
        kind=kind,
        start=maybe_int(note, "start_index"),
        end=maybe_int(note, "end_index"),
        index=maybe_int(note, "index"),
        citation=_cited(kind, note),
        raw=note,
    )


def _cited(kind: str, note: RawItem) -> AnyCitation | None:
    """What an annotation cites; None for other kinds, and without the address or the id."""
    file_id, name = text_of(note, "file_id"), text_of(note, "filename")
    match kind:
        case "url_citation" if url := text_of(note, "url"):
            return Citation(url, text_of(note, "title"))
        case "file_citation" if file_id:
            return FileCitation(file_id, name)
        case "container_file_citation" if file_id:
            return ContainerFileCitation(text_of(note, "container_id"), file_id, name)
        case "file_path" if file_id:
            return FilePathCitation(file_id)
        case _:
            return None


def _emptied(part: RawItem) -> RawItem:
    if part.get("type") != "output_text":
        return part
    notes = [
        {key: value for key, value in note.items() if key not in _PLACES}
        for note in mappings_of(part, "annotations")
    ]
    return {**part, "text": "", "annotations": notes}


def messages_in(raws: Sequence[RawItem]) -> list[ModelMessage | None]:
    """The messages of a response, each at its item's index; None for every other item."""
    return [read_message(raw) if raw.get("type") == "message" else None for raw in raws]


def message_text(raws: Sequence[RawItem]) -> str:
    """All text of all messages, in order."""
    return "".join(message.text for message in messages_in(raws) if message)


def annotations_of(raws: Sequence[RawItem], kind: str) -> Iterator[PlacedAnnotation]:
    """Every annotation of this type, placed in the text that `message_text` gives."""
    for placed in placed_annotations(messages_in(raws)):
        if placed.annotation.kind == kind:
            yield placed


def write_item(item: Item) -> RawItem:
    """An item as a request sends it: one of the provider's goes back as it came."""
    match item:
        case UserMessage(content=content):
            parts = [write_content(part) for part in content]
            return {"type": "message", "role": "user", "content": parts}
        case _:
            return item.raw


def write_content(content: PromptContent) -> dict[str, Any]:
    """One part of a prompt's message."""
    match content:
        case TextContent(text=text):
            return {"type": "input_text", "text": text}
        case UploadedFile(file_id=file_id, is_image=is_image):
            return {"type": "input_image" if is_image else "input_file", "file_id": file_id}
        case InlineFile(is_image=True):
            return {"type": "input_image", "detail": "auto", "image_url": _data_url(content)}
        case InlineFile(name=name):
            return {"type": "input_file", "filename": name, "file_data": _data_url(content)}
        case _:
            assert_never(content)


def _data_url(file: InlineFile) -> str:
    return f"data:{file.media_type};base64,{file.data}"


@dataclass(frozen=True, slots=True)
class FunctionCallReader:
    """Reads calls of functions. `names` are the tools' own names by the name on the wire."""

    names: Mapping[str, str]
    call_type: str = "function_call"

    def is_call(self, raw: RawItem, raws: Sequence[RawItem]) -> bool:
        return True

    def read(self, raw: RawItem) -> ToolCallItem:
        wire_name = text_of(raw, "name")
        name = self.names.get(wire_name, wire_name)
        return ToolCallItem(text_of(raw, "call_id"), name, text_of(raw, "arguments"), self, raw)

    def output(self, call: ToolCallItem, end: ToolCallEnd) -> ToolOutputItem:
        return _output("function_call_output", call, end)

    def redacted(self, raw: RawItem, redactor: Redactor) -> RawItem:
        return redacted_arguments(raw, redactor)


@dataclass(frozen=True, slots=True)
class CustomCallReader:
    """Reads calls of custom tools: their free text is one argument, by `arguments` or `input`."""

    names: Mapping[str, str]
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    call_type: str = "custom_tool_call"

    def is_call(self, raw: RawItem, raws: Sequence[RawItem]) -> bool:
        return not self._is_hosted(raw, raws)

    def read(self, raw: RawItem) -> ToolCallItem:
        wire_name = text_of(raw, "name")
        name = self.names.get(wire_name, wire_name)
        argument = self.arguments.get(wire_name, "input")
        arguments = to_json({argument: text_of(raw, "input")}).decode()
        return ToolCallItem(text_of(raw, "call_id"), name, arguments, self, raw)

    def output(self, call: ToolCallItem, end: ToolCallEnd) -> ToolOutputItem:
        return _output("custom_tool_call_output", call, end)

    def redacted(self, raw: RawItem, redactor: Redactor) -> RawItem:
        return redacted_fields(raw)

    def _is_hosted(self, raw: RawItem, raws: Sequence[RawItem]) -> bool:
        """Whether the provider ran a custom tool of its own: the prompt declares no such name, and
        the model went on to its answer, as it cannot while a call waits.
        """
        if text_of(raw, "name") in self.names:
            return False
        rest = dropwhile(lambda other: other is not raw, raws)
        return any(text_of(other, "type") == "message" for other in rest)


def _output(kind: str, call: ToolCallItem, end: ToolCallEnd) -> ToolOutputItem:
    answer = {"call_id": call.call_id, "output": end.text, **caller_of(call.raw)}
    raw = {"type": kind, **answer}
    return ToolOutputItem(call.call_id, text_of(call.raw, "name"), end.text, end.failure, raw)


def caller_of(raw: RawItem) -> dict[str, Any]:
    """The program that made the call, to be repeated in the answer: it finds its answers by it."""
    caller = mapping_of(raw, "caller")
    return {"caller": caller} if caller else {}
