"""Hooks around model requests, prompts, turns and sessions: what they get, and how they are run.

A hook that comes before something may refuse it, and refuses it also by failing. What is over
cannot be prevented: a hook that hears of an end and fails is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from toolcrib.calls.hook_chain import Refuse, bounded, hook_name
from toolcrib.errors import describe_error

if TYPE_CHECKING:
    from toolcrib.calls.hooks import Hook, HookEvent, Hooks

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedRequest:
    """A request that is about to be sent to a model."""

    session_id: str
    turn: int | None
    """None in an agent, which numbers a turn with its first call."""
    step: int
    model: str | None
    prompt_name: str | None = None
    tools: tuple[str, ...] = ()
    """The names of the tools that the model is told of."""
    messages: Sequence[Any] = field(default=(), repr=False)
    """What is sent, in the form of the adapter or the agent; to be read only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedReply:
    """A reply of a model, before anything of it is acted on."""

    session_id: str
    turn: int | None
    step: int
    model: str | None
    prompt_name: str | None = None
    calls: tuple[str, ...] = ()
    """The names of the tools that the model calls."""
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    items: Sequence[Any] = field(default=(), repr=False)
    """What came back, in the form of the adapter or the agent; to be read only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedPrompt:
    """A prompt that was submitted. Nothing has been recorded or sent yet."""

    session_id: str
    prompt_name: str | None
    text: str
    principal: str | None = None
    transport: str | None = None
    parent_call_id: str | None = None
    """The call whose handler evaluates the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedTurn:
    """A turn that begins or has ended."""

    session_id: str
    turn: int | None
    prompt_name: str | None = None
    outcome: str | None = None
    """How it ended; None at its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedSession:
    """A session that a runtime has opened or closed."""

    session_id: str
    principal: str
    is_new: bool = False


HookFacts: TypeAlias = HookedRequest | HookedReply | HookedPrompt | HookedTurn | HookedSession


async def refusal_of(hooks: Hooks | None, event: HookEvent, facts: HookFacts) -> str | None:
    """Ask the hooks of an event, in their order; the reason of the first that refuses or fails."""
    return None if hooks is None else await first_refusal(hooks.of(event), facts)


async def first_refusal(hooks: Sequence[Hook], facts: HookFacts) -> str | None:
    """The same, for hooks that were looked up before."""
    for hook in hooks:
        try:
            reply = await bounded(hook.timeout, hook.function(facts), hook.function)
        except Exception as error:
            logger.warning("the %s hook %s failed", hook.event, _name(hook), exc_info=error)
            return f"The {hook.event} hook {_name(hook)} failed: {describe_error(error)}."
        if isinstance(reply, Refuse):
            return reply.reason or f"The {hook.event} hook {_name(hook)} refused it."
        if reply is not None:
            return (
                f"The {hook.event} hook {_name(hook)} returned {type(reply).__name__}; "
                "return None or Refuse(reason)."
            )
    return None


async def tell_hooks(hooks: Hooks | None, event: HookEvent, facts: HookFacts) -> None:
    """Tell the hooks of an event that something is over, the innermost first."""
    for hook in reversed(hooks.of(event) if hooks is not None else ()):
        try:
            await bounded(hook.timeout, hook.function(facts), hook.function)
        except Exception as error:
            logger.warning("the %s hook %s failed", hook.event, _name(hook), exc_info=error)


def _name(hook: Hook) -> str:
    return hook_name(hook.function)
