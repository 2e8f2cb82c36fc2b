"""A runtime's hooks in its sessions, whose tools come and go."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from toolcrib.calls.halt import Halt
from toolcrib.calls.hooks import Hooks, PreReply

if TYPE_CHECKING:
    from toolcrib.calls.executor import Executor


@dataclass(frozen=True, slots=True)
class SessionHooks(Hooks):
    """Hooks that may name tools that a session does not have, or not yet: they hold as soon as it
    has them.
    """

    def check(self, known: Mapping[str, Any]) -> None:
        """Raise `InvalidHooks` for hooks that cannot be called."""
        Hooks.check(self.only(known), known)


def session_hooks(given: Hooks | None) -> SessionHooks:
    """The same hooks, for tools that come and go."""
    given = given or Hooks()
    return SessionHooks(given.global_pre, given.global_post, given.pre, given.post, given.timeout)


def prompt_hooks(hooks: SessionHooks, executor: Executor, names: Collection[str]) -> SessionHooks:
    """The hooks for a prompt that was offered `names`: a call of one that the session's executor
    no longer has finds nothing, also in the middle of a turn.
    """
    given, offered = hooks.global_pre, frozenset(names)

    async def look_for_it(context: Any, name: str, arguments: dict[str, Any]) -> PreReply:
        if name in offered and name not in executor.tools:
            raise Halt("not_found", f"There is no tool named {name!r} any more.")
        return arguments if given is None else await given(context, name, arguments)

    return replace(hooks, global_pre=look_for_it)
