"""The provider's own items of a model's reply, read without knowing the provider.

They are JSON of many shapes; what this module does not know is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from pydantic_core import from_json

_TEXT: Final = frozenset({"text", "output_text", "model_output"})
_THOUGHT: Final = frozenset({"thinking", "thought", "summary_text", "reasoning_text"})


def answer_in(items: Sequence[Any]) -> str:
    """The text of a model's answer; empty when it has none."""
    return "".join(_words(items, _is_text))


def thought_in(items: Sequence[Any]) -> str:
    """The visible reasoning of a model."""
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
    # Gemini's parts have no type: a thought has a flag, and the rest is text.
    kind = facts.get("type") or facts.get("part_kind")
    if isinstance(kind, str):
        return kind
    return "thought" if facts.get("thought") is True else "text" if "text" in facts else ""


def _is_text(facts: Mapping[str, Any]) -> bool:
    return _kind(facts) in _TEXT


def _is_thought(facts: Mapping[str, Any]) -> bool:
    return _kind(facts) in _THOUGHT


_CALLS: Final = frozenset({"function_call", "custom_tool_call", "tool-call"})


def arguments_in(items: Sequence[Any]) -> dict[str, Any]:
    """The arguments of the calls that a reply asks for, by the id of the call."""
    calls = [cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping)]
    return {
        call_id: _parsed(call)
        for call in calls
        if _kind(call) in _CALLS
        and isinstance(call_id := call.get("call_id") or call.get("tool_call_id"), str)
    }


def _parsed(call: Mapping[str, Any]) -> Any:
    for name in ("arguments", "args"):
        arguments = call.get(name)
        if isinstance(arguments, str):
            return parsed_arguments(arguments)
        if arguments is not None:
            return arguments
    return call.get("input")


def parsed_arguments(text: str) -> Any:
    """The arguments that a model wrote: JSON, or a free text."""
    try:
        return from_json(text)
    except ValueError:
        return text
