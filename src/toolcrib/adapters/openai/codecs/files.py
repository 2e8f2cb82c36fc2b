"""Files of containers that messages of the Responses API cite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from toolcrib.adapters.cited_files import files_by_call
from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.items import mapping_of, maybe_text, text_of
from toolcrib.adapters.openai.items import messages_in
from toolcrib.tools.citations import GeneratedFile

_IN_CONTAINERS: Final = frozenset({"code_interpreter_call", "shell_call"})


def files_of(item: RawItem, items: Sequence[RawItem]) -> tuple[GeneratedFile, ...]:
    """The files that a call made, as far as the messages among the items cite them."""
    index = _index(item, items)
    if index is None:
        return ()
    containers = {
        at: _container(other)
        for at, other in enumerate(items)
        if text_of(other, "type") in _IN_CONTAINERS
    }
    return files_by_call(containers, messages_in(items)).get(index, ())


def _index(item: RawItem, items: Sequence[RawItem]) -> int | None:
    """Where the item stands: another may look the same."""
    for index, other in enumerate(items):
        if other is item:
            return index
    return next((index for index, other in enumerate(items) if other == item), None)


def _container(item: RawItem) -> str | None:
    named = maybe_text(item, "container_id")
    return named or maybe_text(mapping_of(item, "environment"), "container_id")
