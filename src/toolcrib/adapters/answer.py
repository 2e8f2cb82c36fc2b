"""The text of an answer, and what its annotations point at.

The typed value of an answer, however the model wrapped its JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.json_fields import mappings_of, maybe_int, text_of, text_parts
from toolcrib.prompt.output import OutputMismatch, OutputSchema
from toolcrib.tools.web_search import Citation

_PLACES: Final = frozenset({"start_index", "end_index", "index"})


@dataclass(frozen=True, slots=True)
class Annotation:
    """A note on one part of the answer. Its own indexes count from the start of that part."""

    facts: RawItem
    item_index: int
    """Which of the items the note was found in."""
    offset: int
    """Where the part starts in the whole text."""
    length: int

    def span(self) -> tuple[int, int] | None:
        """Start and end (exclusive) in the whole text; None when no text is marked.

        Pictures and files that the text does not mention come with an empty span at zero.
        """
        start, end = maybe_int(self.facts, "start_index"), maybe_int(self.facts, "end_index")
        if start is None or end is None or not 0 <= start < end <= self.length:
            return None
        return self.offset + start, self.offset + end

    def point(self) -> int | None:
        """The place in the whole text; None when there is none or it lies outside."""
        index = maybe_int(self.facts, "index")
        if index is None or not 0 <= index <= self.length:
            return None
        return self.offset + index


def answer_items(items: Sequence[RawItem]) -> list[RawItem]:
    """The items of a response that make up its answer: without remarks on the way to it, where
    the model tells the two apart.
    """
    has_final = any(item.get("phase") == "final_answer" for item in items)
    return [item for item in items if not (has_final and item.get("phase") == "commentary")]


def told_apart(items: Sequence[RawItem], answer: Sequence[RawItem]) -> list[RawItem]:
    """The items as codecs read them: what was said on the way to the answer comes without its
    text, and what is noted there without its place.

    So the text of all these items is the text of the answer, and every place lies in it.
    """
    kept = {id(item) for item in answer}
    return [
        _without_text(item) if item.get("type") == "message" and id(item) not in kept else item
        for item in items
    ]


def _without_text(message: RawItem) -> RawItem:
    return {**message, "content": [_emptied(part) for part in mappings_of(message, "content")]}


def _emptied(part: RawItem) -> RawItem:
    if part.get("type") != "output_text":
        return part
    notes = [
        {key: value for key, value in note.items() if key not in _PLACES}
        for note in mappings_of(part, "annotations")
    ]
    return {**part, "text": "", "annotations": notes}


def last_text(items: Sequence[RawItem]) -> str:
    """The text of the last message. A structured answer is whole in each message."""
    messages = [item for item in items if item.get("type") == "message"]
    return answer_text(messages[-1:])


def answer_text(items: Sequence[RawItem]) -> str:
    """All text of all messages, in order."""
    return "".join(text_of(part, "text") for part in text_parts(items))


def annotations_of(items: Sequence[RawItem], kind: str) -> Iterator[Annotation]:
    """Every annotation of this type, placed in the text that `answer_text` gives."""
    offset = 0
    for index, item in enumerate(items):
        for part in text_parts((item,)):
            length = len(text_of(part, "text"))
            for facts in mappings_of(part, "annotations"):
                if facts.get("type") == kind:
                    yield Annotation(facts, index, offset, length)
            offset += length


def citations(items: Sequence[RawItem]) -> list[Citation]:
    """What the answer cites on the web; spans are offsets into its text."""
    return [
        Citation(url, text_of(note.facts, "title"), note.span())
        for note in annotations_of(items, "url_citation")
        if (url := text_of(note.facts, "url"))
    ]


_FENCED: Final = re.compile(r"```[\w-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)


def structured(items: Sequence[RawItem], schema: OutputSchema[Any]) -> Any:
    """The value in an answer. Raises `OutputMismatch` for what the last message says."""
    first: OutputMismatch | None = None
    for text in _candidates(items):
        try:
            return schema.parse(text)
        except OutputMismatch as error:
            first = first or error
    assert first is not None
    raise first


def _candidates(items: Sequence[RawItem]) -> Iterator[str]:
    """Where the JSON may be: in the last message; in all messages at the end, because some
    providers begin a new one wherever a source is cited; and in either within a code fence, which
    models without a schema like to write.
    """
    whole = [last_text(items), answer_text(_at_the_end(items))]
    texts = list(dict.fromkeys(whole))
    yield from texts
    for text in texts:
        fenced = _FENCED.findall(text)
        if len(fenced) == 1:
            yield fenced[0]


def _at_the_end(items: Sequence[RawItem]) -> list[RawItem]:
    last = takewhile(lambda item: item.get("type") == "message", reversed(items))
    return list(last)[::-1]
