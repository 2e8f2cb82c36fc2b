"""Which of the host's tools one session gets, and why it does not get the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolcrib.host_tools.definition import HostToolDefinition, ToolHandler
from toolcrib.host_tools.registrations import Registration

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool that a session gets. `definition` has the session's own handler."""

    definition: HostToolDefinition
    registration: Registration

    def is_same(self, other: Offered) -> bool:
        """Whether both are one tool, registered for the same sessions."""
        mine, theirs = self.registration, other.registration
        return mine.key == theirs.key and mine.definition is theirs.definition


@dataclass(frozen=True, slots=True)
class Withheld:
    """A tool that a session does not get. `is_fault` when it should have got it."""

    definition: HostToolDefinition
    reason: str
    is_fault: bool = False

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.definition.name


@dataclass(frozen=True, slots=True)
class Offer:
    """The host's tools for one session, in the order of registration. Tools that are not to be
    seen there are in neither list.
    """

    tools: tuple[Offered, ...]
    withheld: tuple[Withheld, ...]


@dataclass(frozen=True, slots=True)
class Asking:
    """The session that asks for tools: its context, and what its client can do."""

    context: ToolContext
    capabilities: Collection[str]
    handler_of: Callable[[HostToolDefinition, ToolContext], ToolHandler]
    """Finds or makes the session's own handler of a tool that has a factory."""


def offer(registrations: Iterable[Registration], asking: Asking) -> Offer:
    """Judge every tool on its own: one that fails does not fail the others."""
    judged = [offer_one(each, asking) for each in registrations]
    return Offer(
        tools=tuple(each for each in judged if isinstance(each, Offered)),
        withheld=tuple(each for each in judged if isinstance(each, Withheld)),
    )


def offer_one(registration: Registration, asking: Asking) -> Offered | Withheld | None:
    """One tool for a session; None when it is not to be seen there."""
    definition = registration.definition
    try:
        if definition.visible_when is not None and not definition.visible_when(asking.context):
            return None
        missing = [each for each in definition.requires if each not in asking.capabilities]
        if missing:
            return Withheld(definition, f"the client cannot do {', '.join(missing)}")
        if definition.factory is not None:
            handler = asking.handler_of(definition, asking.context)
            definition = definition.handled_by(handler)
        return Offered(definition, registration)
    except Exception as error:
        logger.exception("host tool %r could not be mounted", definition.name)
        return Withheld(definition, describe(error), is_fault=True)


def describe(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
