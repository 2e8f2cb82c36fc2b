"""The response to a prompt, and the tokens it used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from toolcrib.tools.type_arguments import TypeArguments

if TYPE_CHECKING:
    from toolcrib.adapters.codec import Invocation
    from toolcrib.approval.decision import ApprovalRequest

O = TypeVar("O")  # noqa: E741

ResponseStatus = Literal["completed", "waiting"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, summed over every request of a turn."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


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
    citations: tuple[Any, ...] = ()
    """What the answer cites; spans are offsets into `text`."""
    usage: Usage = Usage()
    pending: tuple[ApprovalRequest, ...] = ()
    model: str | None = None
    request_ids: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)
    """Item types that this version does not know, and how many there were."""
