"""The answer to a prompt: its text, citations and typed value, and the response they make up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from toolcrib.adapters.items import (
    Annotation,
    Item,
    ModelMessage,
    ReasoningItem,
    ReplyItem,
    ToolCallItem,
)
from toolcrib.adapters.options import Usage
from toolcrib.errors import OutputMismatch, UsageError
from toolcrib.prices.cost import Cost
from toolcrib.prompt.output import OutputSchema
from toolcrib.tools.citations import AnyCitation, FileCitation, FilePathCitation
from toolcrib.tools.type_arguments import TypeArguments

if TYPE_CHECKING:
    from toolcrib.adapters.codec import Invocation, RawItem
    from toolcrib.adapters.tool_calls import ItemFormat
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class PlacedAnnotation:
    """An annotation with its place in the text of a whole answer."""

    annotation: Annotation
    item_index: int
    """The index of the message that it belongs to."""
    offset: int
    """Where the annotated text starts in the answer."""
    length: int

    def span(self) -> tuple[int, int] | None:
        """Start and end (exclusive) in the answer; None when no text is marked.

        Pictures and files that the text does not mention come with an empty span at zero.
        """
        start, end = self.annotation.start, self.annotation.end
        if start is None or end is None or not 0 <= start < end <= self.length:
            return None
        return self.offset + start, self.offset + end

    def citation(self) -> AnyCitation | None:
        """What the annotation cites, with its place in the answer; None when it cites nothing."""
        cited, span = self.annotation.citation, self.span()
        if isinstance(cited, FileCitation | FilePathCitation):
            return replace(cited, index=span[1] if span else self.point(), span=span)
        return None if cited is None else replace(cited, span=span)

    def point(self) -> int | None:
        """The place in the answer; None when there is none or it lies outside."""
        index = self.annotation.index
        if index is None or not 0 <= index <= self.length:
            return None
        return self.offset + index


def answer_items(items: Sequence[ReplyItem]) -> list[ReplyItem]:
    """The items that make up the answer: without commentary, where the model marks it as such."""
    has_final = any(_phase(item) == "final_answer" for item in items)
    return [item for item in items if not (has_final and _phase(item) == "commentary")]


def _phase(item: ReplyItem) -> str | None:
    return item.phase if isinstance(item, ModelMessage) else None


def codec_view(
    items: Sequence[ReplyItem], answer: Sequence[ReplyItem], item_format: ItemFormat
) -> list[RawItem]:
    """The items as codecs read them: messages outside the answer without text, and annotations on
    them without places.

    So the text of all these items is the text of the answer, and every place lies in it.
    """
    answer_ids = {id(item) for item in answer}
    return [
        item_format.without_text(item.raw)
        if isinstance(item, ModelMessage) and id(item) not in answer_ids
        else item.raw
        for item in items
    ]


def last_text(items: Sequence[ReplyItem]) -> str:
    """The text of the last message. A structured answer is whole in each message."""
    messages = [item for item in items if isinstance(item, ModelMessage)]
    return messages[-1].text if messages else ""


def answer_text(items: Sequence[Item]) -> str:
    """All text of all messages of the model, in order."""
    return "".join(item.text for item in items if isinstance(item, ModelMessage))


def reasoning_texts(items: Sequence[ReplyItem]) -> tuple[str, ...]:
    """The readable reasoning of the items, in order."""
    texts: list[str] = []
    is_cut = False
    for item in items:
        match item:
            case ReasoningItem(is_continued=True) if is_cut and item.texts:
                texts[-1] += "".join(item.texts)
            case ReasoningItem():
                texts += item.texts
                is_cut = bool(texts)
            case ModelMessage() | ToolCallItem():
                is_cut = False
            case _:
                pass
    return tuple(texts)


def placed_annotations(items: Sequence[Item | None]) -> Iterator[PlacedAnnotation]:
    """Every annotation, placed in the text that `answer_text` gives."""
    offset = 0
    for index, item in enumerate(items):
        if not isinstance(item, ModelMessage):
            continue
        for part in item.texts:
            for annotation in part.annotations:
                yield PlacedAnnotation(annotation, index, offset, len(part.text))
            offset += len(part.text)


def citations(items: Sequence[Item | None]) -> list[AnyCitation]:
    """What the answer cites, in order; spans are offsets into its text."""
    return [
        cited for placed in placed_annotations(items) if (cited := placed.citation()) is not None
    ]


_OPEN, _CLOSE = (rf"(?:{mark}|\\u{ord(mark):x})" for mark in "\ue200\ue201")
_MARKER: Final = re.compile(rf'[ \t]*{_OPEN}[^"]{{0,400}}?{_CLOSE}', re.IGNORECASE)

_FENCED: Final = re.compile(r"```[\w-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)


def structured(items: Sequence[ReplyItem], schema: OutputSchema[Any]) -> Any:
    """The typed value of an answer. Raises `OutputMismatch` for the text of the last message."""
    first: OutputMismatch | None = None
    for text in _candidates(items):
        try:
            return schema.parse(text)
        except OutputMismatch as error:
            first = first or error
    assert first is not None
    raise first


def _candidates(items: Sequence[ReplyItem]) -> Iterator[str]:
    """Where the JSON may be: in the last message; in all messages at the end, because some
    providers begin a new one wherever a source is cited; and in either within a code fence, which
    models without a schema like to write.
    """
    whole = [last_text(items), answer_text(_final_messages(items))]
    texts = list(dict.fromkeys(map(without_markers, whole)))
    yield from texts
    for text in texts:
        fenced = _FENCED.findall(text)
        if len(fenced) == 1:
            yield fenced[0]


def without_markers(text: str) -> str:
    """JSON text without the marks that a model leaves where it cites a source: characters of a
    private use, in a text that only its provider can read.
    """
    return _MARKER.sub("", text)


def _final_messages(items: Sequence[ReplyItem]) -> list[ReplyItem]:
    messages = takewhile(lambda item: isinstance(item, ModelMessage), reversed(items))
    return list(messages)[::-1]


O = TypeVar("O")  # noqa: E741
R = TypeVar("R")

ResponseStatus = Literal["completed", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptResponse(TypeArguments, Generic[O]):
    """The answer to a prompt, with everything that happened on the way.

    With status `waiting` there is no answer yet: the calls in `pending` need a decision, and the
    adapter's `resume` goes on from there, in this process or another.
    """

    prompt_name: str
    status: ResponseStatus
    output: O | None
    text: str
    hosted_outputs: Mapping[str, Any] = field(
        default_factory=lambda: MappingProxyType(dict[str, Any]()), hash=False
    )
    """The typed output of each provider-run tool that was invoked, by the tool's name. Places in
    it, and in `invocations`, are offsets into `text`; None for what `text` does not say."""
    invocations: tuple[tuple[str, Invocation], ...] = ()
    """Every provider-run call, with the name of its tool, in order."""
    citations: tuple[AnyCitation, ...] = ()
    """Everything that the answer cites, of every kind, also when no tool ran in this turn; spans
    are offsets into `text`."""
    run_outputs: Mapping[str, tuple[Any, ...]] = field(
        default_factory=lambda: MappingProxyType(dict[str, tuple[Any, ...]]()),
        hash=False,
        repr=False,
    )
    """The typed output of each run of a provider-run tool, by the tool's name."""
    reasoning: tuple[str, ...] = ()
    """What the model lets others read of its reasoning, over all steps, in order."""
    usage: Usage = field(default_factory=Usage)
    cost: Cost = field(default_factory=Cost)
    """Of the requests and of what the provider ran; `unpriced` has what nobody knows a price of."""
    pending: tuple[ApprovalRequest, ...] = ()
    model: str | None = None
    request_ids: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)
    """Item types that this version does not know, and how many there were."""

    def output_of(self, tool: Tool[Any, R]) -> R | None:
        """What a provider-run tool gave over all its runs; None when it was not run.

        Raises `UsageError` for a tool that the provider does not run.
        """
        return self.hosted_outputs.get(_provider_run(tool))

    def outputs_of(self, tool: Tool[Any, R]) -> tuple[R, ...]:
        """What each run of a provider-run tool gave, failed runs included, in order.

        Raises `UsageError` for a tool that the provider does not run.
        """
        return self.run_outputs.get(_provider_run(tool), ())


def _provider_run(tool: Tool[Any, Any]) -> str:
    """The name of a provider-run tool."""
    if tool.place != "provider":
        raise UsageError(
            f"tool {tool.name!r} does not run at the provider; the results of its calls are in "
            "the session's transcript"
        )
    return tool.name
