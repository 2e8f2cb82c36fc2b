"""Runs of code whose container is gone: the provider does not take them back as they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import mappings_of, text_of

_RUN: Final = "code_interpreter_call"


def retold(items: Sequence[Item]) -> list[Item]:
    """The items with every run of code told in the model's own words instead.

    The reasoning that led to a run goes with it: it is refused without the item it led to.
    """
    kept: list[Item] = []
    for item in items:
        if item.get("type") != _RUN:
            kept.append(item)
            continue
        while kept and kept[-1].get("type") == "reasoning":
            kept.pop()
        kept.append(_told(item))
    return kept


def _told(run: Item) -> dict[str, Any]:
    printed = "".join(text_of(output, "logs") for output in mappings_of(run, "outputs"))
    text = (
        "I ran this code, in a container that is gone by now, with its files:\n"
        f"{text_of(run, 'code')}\n\nIt printed:\n{printed}"
    )
    return {"type": "message", "role": "assistant", "content": text}
