"""How a prompt is evaluated: what the caller may say, and what a turn makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from toolcrib.adapters.budget import Budget
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.adapters.withholding import Governance
    from toolcrib.session.bus import EventBus


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


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """How the requests of a turn are made."""

    model: str
    tool_choice: str = "auto"
    budget: Budget = field(default_factory=Budget)
    stream: bool = False
    follows: bool = False
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


def turn_options(model: str, options: Options, reserved: Mapping[str, str]) -> TurnOptions:
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
        settings=settings,
    )
