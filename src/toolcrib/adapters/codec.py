"""Codecs: one kind of hosted tool on one provider's wire.

`HostedToolCodec` is the least that an adapter takes; `Codec` is the base of those that ship.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from toolcrib.adapters.items import mapping_of, plain, text_of
from toolcrib.failures import FailureKind
from toolcrib.prices.cost import Cost
from toolcrib.tools.provider_tools import HostedTool

C = TypeVar("C")
O = TypeVar("O")  # noqa: E741
O_co = TypeVar("O_co", covariant=True)

RawItem = Mapping[str, Any]
"""One item of a provider's output, as plain JSON: unknown fields kept, any field may be missing."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a hosted tool adds to a request: tool entries, `include` values, other body fields."""

    tools: tuple[dict[str, Any], ...] = field(repr=False)
    """Not shown, like `body`: an entry may hold a server's credentials."""
    include: tuple[str, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call that the provider ran, as we learn of it afterwards."""

    item_id: str
    kind: str
    params: Any
    """What the call was asked to do (queries, code, commands), as far as the provider says."""
    value: Any
    """The typed result of this call. That of a failed call says so in `status` and `error`; None
    when nothing is known of it."""
    message: str
    """The result as text."""
    success: bool
    error: str | None
    raw: RawItem
    """The item itself, verbatim; a result that came as an item of its own is under `answer`."""
    failure_kind: FailureKind = "provider_error"
    """What a failed call is recorded as; an output hook may have failed it."""
    cost: Cost | None = None
    """What the provider bills for it, besides tokens."""


class HostedToolCodec(Protocol[C, O_co]):
    """The least a codec must do; whatever satisfies it can be given to an adapter."""

    @property
    def kind(self) -> str:
        """The neutral kind this codec speaks for."""
        ...

    def serialize(self, tool: HostedTool[C]) -> dict[str, Any]:
        """The tool as an entry of the request's `tools`."""
        ...

    def parse_output(self, response_items: Sequence[Any], tool: HostedTool[C]) -> O_co | None:
        """The typed output over all items of all steps; None when the tool was not invoked.

        An item is a mapping whose keys can also be read as attributes, like the SDK's objects.
        Messages on the way to the answer come without their text, so that the text of the items is
        the text of the response, and places in it are right.
        """
        ...


class Codec(ABC, Generic[C, O]):
    """Base of the codecs that ship: it adds what the least protocol cannot say."""

    kind: str
    call_types: ClassVar[frozenset[str]]
    """The types of items that each stand for one call the provider ran."""
    include: ClassVar[tuple[str, ...]] = ()
    params_type: ClassVar[type[Any] | None] = None
    result_type: ClassVar[type[Any] | None] = None
    """What an invocation tells, where that has a fixed shape: a tool's own types must fit it."""

    @abstractmethod
    def serialize(self, tool: HostedTool[C]) -> dict[str, Any]:
        """The tool as an entry of the request's `tools`. Raises `UnsupportedOption`."""

    def contribute(self, tool: HostedTool[C]) -> Contribution:
        """Everything the request needs for this tool."""
        return Contribution((self.serialize(tool),), self.include)

    def choice(self, tool: HostedTool[C]) -> Any:
        """The `tool_choice` that makes the model use this tool."""
        return {"type": self.serialize(tool)["type"]}

    @abstractmethod
    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[C]
    ) -> Invocation:
        """One call from its item. `items` are all items of its step, and of the steps after it
        once there are some, for results that lie elsewhere. Never raises for missing or unknown
        fields.
        """

    def combine(
        self, values: Sequence[Any], items: Sequence[RawItem], tool: HostedTool[C]
    ) -> O | None:
        """The typed output of calls with these values; None when the tool was not invoked.

        `items` are what else belongs to the output: the messages that its text and citations come
        from. Without items, the output is that of the calls alone.
        """
        return values[-1] if values else None

    def parse_output(self, response_items: Sequence[Any], tool: HostedTool[C]) -> O | None:
        """The typed output over all items of all steps; None when the tool was not invoked."""
        items = [plain(item) for item in response_items]
        values = [invocation.value for invocation in self.invocations(items, tool)]
        return self.combine(values, items, tool)

    def is_call(self, item: RawItem, tool: HostedTool[C]) -> bool:
        """Whether the item is a call of this tool that the provider ran."""
        return text_of(item, "type") in self.call_types

    def is_over(self, item: RawItem, items: Sequence[RawItem]) -> bool:
        """Whether the result of a call is among the items. Most items bring theirs with them."""
        return True

    def invocations(self, items: Sequence[RawItem], tool: HostedTool[C]) -> list[Invocation]:
        """Every call among the items of one step, in order."""
        return [self.invocation(item, items, tool) for item in items if self.is_call(item, tool)]


COMPLETED: Final = "completed"

# A finished response may hold calls that are still `searching`: only these say that it went wrong.
_FAILED: Final = frozenset({"failed", "incomplete", "cancelled"})


def failure_of(item: RawItem) -> str | None:
    """Why the provider failed, with its code where there is one; None when it did not."""
    status, reasons = text_of(item, "status"), _reasons(item)
    if status not in _FAILED and not reasons:
        return None
    outcome = status if status in _FAILED else "failed"
    return ": ".join([f"{text_of(item, 'type') or 'the call'} {outcome}", *reasons])


def status_of(item: RawItem, failure: str | None) -> str:
    """How a call ended: `completed`, or the provider's word for a failure."""
    if failure is None:
        return COMPLETED
    status = text_of(item, "status")
    return status if status not in ("", COMPLETED) else "failed"


class _Outcome(Protocol):
    @property
    def status(self) -> str: ...

    @property
    def error(self) -> str | None: ...


def outcome_of(values: Sequence[_Outcome]) -> dict[str, Any]:
    """`status` and `error` of several calls: completed when one was, and the first error."""
    statuses = [value.status for value in values]
    status = COMPLETED if COMPLETED in statuses or not statuses else statuses[-1]
    return {"status": status, "error": next(filter(None, (value.error for value in values)), None)}


def with_answer(item: RawItem, answer: RawItem | None) -> RawItem:
    """A call's item with the item of its result, both verbatim."""
    return {**item, "answer": answer} if answer else item


def _reasons(item: RawItem) -> list[str]:
    """The code and the message of an item's `error`, which may be an object or a text."""
    error = mapping_of(item, "error")
    code = error.get("code") or error.get("type")
    code_text = str(code) if isinstance(code, str | int) else ""
    return list(filter(None, (code_text, text_of(error, "message"), text_of(item, "error"))))
