"""`HostedCall`: a call that the provider ran, with its result. Two items, maybe of two steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.items import json_object_of, mapping_of, maybe_text, text_of
from toolcrib.adapters.pydantic_ai.parts import NATIVE_CALL, NATIVE_RETURN, WIRE

# The providers' words for a call that failed.
_FAILED: Final = frozenset({"failed", "error", "incomplete", "cancelled"})
_FAILED_OUTCOMES: Final = frozenset({"failed", "denied"})


@dataclass(frozen=True, slots=True)
class HostedCall:
    """The items of a call and of its result. Either may be empty: the result may come in a later
    step than the call, or not at all.
    """

    call_item: RawItem
    result_item: RawItem

    @property
    def id(self) -> str:
        """The provider's id of the call."""
        return text_of(self.call_item, "id") or text_of(self.result_item, "id")

    @property
    def name(self) -> str:
        """pydantic-ai's name of the tool."""
        return text_of(self.call_item, "name") or text_of(self.result_item, "name")

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments; empty when they are not known."""
        return mapping_of(self.call_item, "arguments") or json_object_of(
            self.call_item, "arguments"
        )

    @property
    def content(self) -> Any:
        """The result in the provider's own shape."""
        return self.result_item.get("content")

    @property
    def facts(self) -> dict[str, Any]:
        """The result, when it is an object; else empty."""
        return mapping_of(self.result_item, "content")

    @property
    def failure(self) -> str | None:
        """Why the call failed, with the provider's code; None when it succeeded.

        A successful response may have failed calls.
        """
        if not self.result_item:
            return f"{self.name} has no result"
        reasons = _error_code(self.details) or _error_code(self.facts) or self._bad_status()
        return ": ".join([f"{self.name} failed", *reasons]) if reasons else None

    @property
    def status(self) -> str:
        """How the call ended: `completed`, or the provider's word for a failure."""
        if self.failure is None:
            return "completed"
        words = [text_of(facts, "status") for facts in (self.details, self.facts)]
        return next((word for word in words if word in _FAILED), "failed")

    @property
    def details(self) -> dict[str, Any]:
        """The provider details of the result."""
        return details_of(self.result_item)

    @property
    def raw(self) -> dict[str, Any]:
        """What the provider sent of the call; a result that it sent apart is under `answer`.

        Where there is no JSON of the provider's, these are the items of the call and its result.
        """
        call, result = mapping_of(self.call_item, WIRE), mapping_of(self.result_item, WIRE)
        if not call and not result:
            call, result = dict(self.call_item), dict(self.result_item)
        return ({**call, "answer": result} if result else call) if call else result

    def _bad_status(self) -> list[str]:
        for facts in (self.details, self.facts):
            status = text_of(facts, "status")
            if status in _FAILED:
                return list(filter(None, (status, text_of(facts, "error"))))
        kind = text_of(self.facts, "type")
        if kind.endswith("_error"):
            return [kind]
        outcome = text_of(self.result_item, "outcome")
        return [outcome] if outcome in _FAILED_OUTCOMES else []


def hosted_call_of(item: RawItem, items: Sequence[RawItem]) -> HostedCall:
    """The hosted call of an item, which is either the call or its result."""
    if text_of(item, "type") == NATIVE_RETURN:
        calls = [other for other in items if _is_same(other, item, NATIVE_CALL)]
        return HostedCall(calls[0] if calls else {}, item)
    results = [other for other in items if _is_same(other, item, NATIVE_RETURN)]
    # A streamed result may come several times; the last one is complete.
    return HostedCall(item, results[-1] if results else {})


def hosted_calls(items: Sequence[RawItem]) -> Iterator[HostedCall]:
    """Every call in order with its result, and results whose calls are not among the items."""
    call_ids = {text_of(item, "id") for item in items if item.get("type") == NATIVE_CALL}
    seen: set[str] = set()
    for item in items:
        kind, call_id = item.get("type"), text_of(item, "id")
        is_lone = kind == NATIVE_RETURN and call_id not in call_ids and call_id not in seen
        if kind == NATIVE_CALL or is_lone:
            seen.add(call_id)
            yield hosted_call_of(item, items)


def details_of(item: RawItem) -> dict[str, Any]:
    """The provider details of an item's part."""
    return mapping_of(mapping_of(item, "part"), "provider_details")


def _is_same(item: RawItem, other: RawItem, kind: str) -> bool:
    call_id = text_of(other, "id")
    return bool(call_id) and item.get("type") == kind and text_of(item, "id") == call_id


def _error_code(facts: RawItem) -> list[str]:
    code = maybe_text(facts, "error_code")
    return [code, *filter(None, [text_of(facts, "error_message")])] if code else []
