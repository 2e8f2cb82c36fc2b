"""Which `AgentContext` a run of an agent belongs to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from toolcrib.context import AgentContext
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from pydantic_ai import RunContext

ContextOf: TypeAlias = Callable[[Any], AgentContext | None]
"""Says which context a run belongs to, from its deps; None leaves it to the toolset."""

MOST_CONVERSATIONS: Final = 1_000
"""Of how many conversations without a context the sessions are kept, the latest ones."""


class RunContexts:
    """Finds the context of a run: the one in its deps, else the toolset's own, else one that is
    made for the conversation.

    Deps are an `AgentContext`, or an object or mapping with one in an attribute or under a key.
    `find` takes the place of that search.
    """

    def __init__(self, own: AgentContext | None, find: ContextOf | None = None) -> None:
        self.own = own
        self._find = find
        self._of_conversations: OrderedDict[str | None, AgentContext] = OrderedDict()

    def of(self, run: RunContext[Any]) -> AgentContext:
        """The context that the calls of this run belong to."""
        deps: Any = run.deps
        if self._find is not None:
            context = self._checked(self._find(deps))
        else:
            is_itself = deps is None or isinstance(deps, AgentContext)
            context = deps if is_itself else context_in(deps)
        return context or self.own or self._of_conversation(run.conversation_id)

    def _checked(self, context: object) -> AgentContext | None:
        if context is None or isinstance(context, AgentContext):
            return context
        raise UsageError(
            f"`context` returned {type(context).__name__} for the deps of a run; return an "
            "AgentContext, or None"
        )

    def _of_conversation(self, conversation_id: str | None) -> AgentContext:
        contexts = self._of_conversations
        context = contexts.get(conversation_id)
        if context is None:
            context = contexts[conversation_id] = AgentContext()
            if len(contexts) > MOST_CONVERSATIONS:
                contexts.popitem(last=False)
        else:
            contexts.move_to_end(conversation_id)
        return context


def context_in(deps: object) -> AgentContext | None:
    """The context that deps hold in one of their attributes. Raises `UsageError` for several."""
    contexts = {id(value): value for value in _values(deps) if isinstance(value, AgentContext)}
    if len(contexts) > 1:
        raise UsageError(
            f"the deps of the run ({type(deps).__name__}) hold {len(contexts)} contexts; say which "
            "one counts with `context=lambda deps: ...`"
        )
    return next(iter(contexts.values()), None)


def _values(deps: object) -> Iterable[object]:
    if deps is None:
        return ()
    if isinstance(deps, Mapping):
        return cast("Mapping[Any, object]", deps).values()
    attributes = getattr(deps, "__dict__", None)
    if isinstance(attributes, dict):
        return cast("dict[str, object]", attributes).values()
    if is_dataclass(deps):
        return (getattr(deps, field.name, None) for field in fields(deps))
    return (getattr(deps, name, None) for name in getattr(deps, "__slots__", ()))
