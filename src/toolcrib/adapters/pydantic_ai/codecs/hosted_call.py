"""A call that a provider ran together with its answer: two items, perhaps of different steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.json_fields import json_object_of, mapping_of, maybe_text, text_of
from toolcrib.adapters.pydantic_ai.parts import NATIVE_CALL, NATIVE_RETURN

# Words of different providers for a call that did not end well.
_FAILED: Final = frozenset({"failed", "error", "incomplete", "cancelled"})
_FAILED_OUTCOMES: Final = frozenset({"failed", "denied"})


@dataclass(frozen=True, slots=True)
class HostedCall:
    """What was asked and what came back. Either may be missing: an answer can come in a later step
    than its call, and a call need not be answered at all.
    """

    call_item: RawItem
    result_item: RawItem

    @property
    def id(self) -> str:
        """The provider's id of the call."""
        return text_of(self.call_item, "id") or text_of(self.result_item, "id")

    @property
    def name(self) -> str:
        """What pydantic-ai calls the tool."""
        return text_of(self.call_item, "name") or text_of(self.result_item, "name")

    @property
    def arguments(self) -> dict[str, Any]:
        """What was asked; empty when that is not known."""
        return mapping_of(self.call_item, "arguments") or json_object_of(
            self.call_item, "arguments"
        )

    @property
    def content(self) -> Any:
        """What came back, in the provider's own shape."""
        return self.result_item.get("content")

    @property
    def facts(self) -> dict[str, Any]:
        """What came back, when that is an object; else empty."""
        return mapping_of(self.result_item, "content")

    @property
    def failure(self) -> str | None:
        """Why the provider could not do it, with its code; None when it did.

        Failures come inside responses that are themselves a success.
        """
        if not self.result_item:
            return f"{self.name} has no result"
        told = _error_code(self.details) or _error_code(self.facts) or self._bad_status()
        return ": ".join([f"{self.name} failed", *told]) if told else None

    @property
    def details(self) -> dict[str, Any]:
        """What pydantic-ai keeps about the answer beside its content."""
        return details_of(self.result_item)

    @property
    def raw(self) -> dict[str, Any]:
        """The call's item verbatim, with that of its answer inside."""
        if not self.call_item:
            return dict(self.result_item)
        return (
            {**self.call_item, "answer": self.result_item}
            if self.result_item
            else dict(self.call_item)
        )

    def _bad_status(self) -> list[str]:
        for told in (self.details, self.facts):
            status = text_of(told, "status")
            if status in _FAILED:
                return list(filter(None, (status, text_of(told, "error"))))
        kind = text_of(self.facts, "type")
        if kind.endswith("_error"):
            return [kind]
        outcome = text_of(self.result_item, "outcome")
        return [outcome] if outcome in _FAILED_OUTCOMES else []


def hosted_call_of(item: RawItem, items: Sequence[RawItem]) -> HostedCall:
    """The call that an item belongs to, whether it is the call or the answer."""
    if text_of(item, "type") == NATIVE_RETURN:
        calls = [each for each in items if _is_same(each, item, NATIVE_CALL)]
        return HostedCall(calls[0] if calls else {}, item)
    answers = [each for each in items if _is_same(each, item, NATIVE_RETURN)]
    # Some answers grow while they are streamed; the last one is whole.
    return HostedCall(item, answers[-1] if answers else {})


def hosted_calls(items: Sequence[RawItem]) -> Iterator[HostedCall]:
    """Every call, in order, with its answer; and answers whose calls are not among the items."""
    called = {text_of(item, "id") for item in items if item.get("type") == NATIVE_CALL}
    seen: set[str] = set()
    for item in items:
        kind, key = item.get("type"), text_of(item, "id")
        is_lone = kind == NATIVE_RETURN and key not in called and key not in seen
        if kind == NATIVE_CALL or is_lone:
            seen.add(key)
            yield hosted_call_of(item, items)


def details_of(item: RawItem) -> dict[str, Any]:
    """What pydantic-ai keeps about an item of the provider's own, beside what all have."""
    return mapping_of(mapping_of(item, "part"), "provider_details")


def _is_same(item: RawItem, other: RawItem, kind: str) -> bool:
    key = text_of(other, "id")
    return bool(key) and item.get("type") == kind and text_of(item, "id") == key


def _error_code(told: RawItem) -> list[str]:
    code = maybe_text(told, "error_code")
    return [code, *filter(None, [text_of(told, "error_message")])] if code else []
