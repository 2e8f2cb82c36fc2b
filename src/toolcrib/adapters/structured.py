"""The typed value of an answer, however the model wrapped its JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from toolcrib.adapters.answer import answer_text, last_text
from toolcrib.adapters.codec import Item
from toolcrib.prompt.output import OutputMismatch, OutputSchema

_FENCED: Final = re.compile(r"```[\w-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)


def structured(items: Sequence[Item], schema: OutputSchema[Any]) -> Any:
    """The value in an answer. Raises `OutputMismatch` for what the last message says."""
    first: OutputMismatch | None = None
    for text in _candidates(items):
        try:
            return schema.parse(text)
        except OutputMismatch as error:
            first = first or error
    assert first is not None
    raise first


def _candidates(items: Sequence[Item]) -> Iterator[str]:
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


def _at_the_end(items: Sequence[Item]) -> list[Item]:
    last = takewhile(lambda item: item.get("type") == "message", reversed(items))
    return list(last)[::-1]
