"""The words of a model in the items of its answer, whichever provider they are from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

_TEXT: Final = frozenset({"text", "output_text", "model_output"})
_THOUGHT: Final = frozenset({"thinking", "thought", "summary_text", "reasoning_text"})


def answer_in(items: Sequence[Any]) -> str:
    """What the model says to the person; empty when it says nothing."""
    return "".join(_words(items, _is_text))


def thought_in(items: Sequence[Any]) -> str:
    """What the model lets see of its reasoning."""
    return "\n\n".join(_words(items, _is_thought))


def _words(items: Sequence[Any], is_wanted: Any) -> Iterator[str]:
    for item in items:
        if not isinstance(item, Mapping):
            continue
        facts = cast("Mapping[str, Any]", item)
        text = _own_text(facts)
        if text and is_wanted(facts):
            yield text
        for name in ("content", "summary", "parts"):
            inner = facts.get(name)
            if isinstance(inner, list):
                yield from _words(cast("list[Any]", inner), is_wanted)


def _own_text(facts: Mapping[str, Any]) -> str:
    for name in ("text", "thinking", "content"):
        text = facts.get(name)
        if isinstance(text, str):
            return text
    return ""


def _kind(facts: Mapping[str, Any]) -> str:
    # Gemini's parts have no type: a thought has a mark, and the rest is text.
    kind = facts.get("type") or facts.get("part_kind")
    if isinstance(kind, str):
        return kind
    return "thought" if facts.get("thought") is True else "text" if "text" in facts else ""


def _is_text(facts: Mapping[str, Any]) -> bool:
    return _kind(facts) in _TEXT


def _is_thought(facts: Mapping[str, Any]) -> bool:
    return _kind(facts) in _THOUGHT
