"""Options of an evaluation: what the caller may set, and the budget of a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from toolcrib.errors import EvaluationReason, PromptEvaluationError, UsageError
from toolcrib.prices.cost import NANO

if TYPE_CHECKING:
    from toolcrib.adapters.turn_tools import Governance
    from toolcrib.prices.cost import CostPart
    from toolcrib.session.bus import EventBus


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, summed over every request of a turn."""

    requests: int = 0
    """How many were sent, with those that failed and were sent again."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0
    """Of the input: what was written to the provider's cache."""
    further_input_tokens: int = 0
    """Of another model that the provider asked within the request, such as an advisor."""
    further_output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together, of all models."""
        own = self.input_tokens + self.output_tokens
        return own + self.further_input_tokens + self.further_output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.further_input_tokens + other.further_input_tokens,
            self.further_output_tokens + other.further_output_tokens,
        )

    @property
    def tokens(self) -> dict[str, int]:
        """The counts of tokens by name, as the ledger keeps them."""
        further = {
            "further_input_tokens": self.further_input_tokens,
            "further_output_tokens": self.further_output_tokens,
        }
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            # Few requests have any.
            **{name: count for name, count in further.items() if count},
        }


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one prompt; None is no limit.

    What is spent stays in the ledger, so a prompt that was stopped here can be resumed with more.
    """

    max_steps: int | None = 50
    """How many requests are made."""
    max_tokens: int | None = None
    """After how many tokens, in and out, no further request is made."""
    max_calls: int | None = None
    """How many calls we run. What the provider runs is not ours to count before it has run."""
    max_cost: float | None = None
    """After how many US dollars no further request is made. What has no known price is refused."""
    seconds: float | None = None
    """From the first request, or from going on, until the answer."""

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_tokens", "max_calls", "max_cost", "seconds"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise UsageError(f"{name} must be more than 0, or None for no limit")

    def check(self, prompt_name: str, *, steps: int, usage: Usage, nanos: int = 0) -> None:
        """Raise, before another request is made, once a limit is reached."""
        if self.max_steps is not None and steps >= self.max_steps:
            raise _spent(prompt_name, f"{steps} steps", self.max_steps, "max_steps")
        used = usage.total_tokens
        if self.max_tokens is not None and used >= self.max_tokens:
            raise _spent(prompt_name, f"{used} tokens", self.max_tokens, "max_tokens")
        if self.max_cost is not None and nanos >= self.max_cost * NANO:
            raise _spent(prompt_name, f"${nanos / NANO:.6f}", f"${self.max_cost}", "max_cost")

    def check_price(self, prompt_name: str, cost: CostPart | None, what: str) -> None:
        """Raise when there is a limit on the cost and something has no known price: nobody could
        say when the limit is reached.
        """
        if self.max_cost is None or (cost is not None and cost.nanos is not None):
            return
        raise PromptEvaluationError(
            f"the budget has a max_cost, and nobody knows the price of {what}. Install "
            "toolcrib[prices], give the store a table of prices that has it (read_prices), or use "
            "max_tokens",
            prompt_name=prompt_name,
            phase="budget",
            reason="max_cost",
        )

    def check_calls(self, prompt_name: str, calls: int) -> None:
        """Raise, before any call of a step is run, when these would be too many."""
        if self.max_calls is not None and calls > self.max_calls:
            raise _spent(prompt_name, f"{calls} tool calls", self.max_calls, "max_calls")


def _spent(
    prompt_name: str, used: str, limit: int | str, reason: EvaluationReason
) -> PromptEvaluationError:
    return PromptEvaluationError(
        f"the prompt takes {used} and may take {limit}; the answer is not there yet. Raise the "
        "limit in its Budget, or ask for less",
        prompt_name=prompt_name,
        phase="budget",
        reason=reason,
    )


class Options(TypedDict, total=False):
    """How a prompt is evaluated. All of it may be left out."""

    bus: EventBus | None
    """Hears everything that happens while the prompt is evaluated."""
    governance: Governance | None
    tool_choice: str
    """`auto`, `none`, `required`, or the name of the tool that the model must use first."""
    budget: Budget | None
    stream: bool
    settings: Mapping[str, Any] | None
    """Further fields of the request, as the provider names them."""
    follows: bool
    """Whether the prompt goes on from the session's earlier ones, which the model then knows."""
    background: bool
    """Whether the provider answers in the background: the answer is asked for until it is there,
    also by a process that resumes the prompt, and cancelling the prompt cancels it there.
    """
    output_retries: int
    """How often the model is asked again when its answer does not fit the output type; 1 unless
    it is set. Each is a step of the budget, and its tokens count.
    """
    compact_above: int | None
    """With `follows`: shorten the conversation first when the last request had more tokens."""


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """How the requests of a turn are made."""

    model: str
    tool_choice: str = "auto"
    budget: Budget = field(default_factory=Budget)
    stream: bool = False
    follows: bool = False
    background: bool = False
    output_retries: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the request, as the provider names them."""

    @property
    def token_limits(self) -> dict[str, int]:
        """The limits on tokens that are set, for all requests together and for each."""
        settings = self.settings
        limits = {
            "max_tokens": self.budget.max_tokens,
            # Providers have two names for it.
            "max_output_tokens": settings.get("max_output_tokens", settings.get("max_tokens")),
        }
        return {name: limit for name, limit in limits.items() if isinstance(limit, int)}


def checked_options(model: str, options: Options, reserved: Mapping[str, str]) -> TurnOptions:
    """The options of a turn. Refuses what is no option, because a misspelt `governance` or
    `budget` would bind nothing, and settings that are `reserved`, with what to do instead.
    """
    known = Options.__annotations__
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        raise UsageError(
            f"there is no option {unknown[0]!r}; besides session there are: {', '.join(known)}"
        )
    settings = dict(options.get("settings") or {})
    taken = sorted(settings.keys() & reserved.keys())
    if taken:
        raise UsageError(f"settings may not hold {taken[0]!r}: {reserved[taken[0]]}")
    return TurnOptions(
        model=model,
        tool_choice=options.get("tool_choice", "auto"),
        budget=options.get("budget") or Budget(),
        stream=options.get("stream", False),
        follows=options.get("follows", False),
        background=options.get("background", False),
        output_retries=_checked_retries(options.get("output_retries", 1)),
        settings=settings,
    )


def _checked_retries(retries: int) -> int:
    if type(retries) is not int or retries < 0:
        raise UsageError(f"output_retries must be a whole number from 0, not {retries!r}")
    return retries
