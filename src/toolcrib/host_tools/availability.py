"""Which host tools a session gets, and why it does not get the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolcrib.errors import describe_error
from toolcrib.host_tools.definition import HostToolDefinition, ToolHandler
from toolcrib.host_tools.registrations import Registration

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AvailableTool:
    """A tool that a session gets. `definition` has the session's own handler."""

    definition: HostToolDefinition
    registration: Registration

    def is_same(self, other: AvailableTool) -> bool:
        """Whether both are the same tool, registered for the same sessions."""
        mine, theirs = self.registration, other.registration
        return mine.key == theirs.key and mine.definition is theirs.definition


@dataclass(frozen=True, slots=True)
class UnavailableTool:
    """A tool that a session does not get. `is_fault` when an error is the reason."""

    definition: HostToolDefinition
    reason: str
    is_fault: bool = False

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.definition.name


@dataclass(frozen=True, slots=True)
class ToolAvailability:
    """The host tools of one session, in the order of registration.

    A tool whose `visible_when` hides it from the session is in neither list.
    """

    available: tuple[AvailableTool, ...]
    unavailable: tuple[UnavailableTool, ...]


@dataclass(frozen=True, slots=True)
class AvailabilityQuery:
    """The session whose tools are evaluated: its context and its client's capabilities."""

    context: ToolContext
    capabilities: Collection[str]
    handler_of: Callable[[HostToolDefinition, ToolContext], ToolHandler]
    """Finds or makes the session's own handler of a tool that has a factory."""


def availability(
    registrations: Iterable[Registration], query: AvailabilityQuery
) -> ToolAvailability:
    """Evaluate every tool on its own: one that fails does not affect the others."""
    tools = [availability_of(registration, query) for registration in registrations]
    return ToolAvailability(
        available=tuple(tool for tool in tools if isinstance(tool, AvailableTool)),
        unavailable=tuple(tool for tool in tools if isinstance(tool, UnavailableTool)),
    )


def availability_of(
    registration: Registration, query: AvailabilityQuery
) -> AvailableTool | UnavailableTool | None:
    """Evaluate one tool for a session; None when `visible_when` hides it."""
    definition = registration.definition
    try:
        if definition.visible_when is not None and not definition.visible_when(query.context):
            return None
        missing = [name for name in definition.requires if name not in query.capabilities]
        if missing:
            return UnavailableTool(
                definition, f"the client lacks the capability {', '.join(missing)}"
            )
        if definition.factory is not None:
            handler = query.handler_of(definition, query.context)
            definition = definition.handled_by(handler)
        return AvailableTool(definition, registration)
    except Exception as error:
        logger.exception("host tool %r could not be mounted", definition.name)
        return UnavailableTool(definition, describe_error(error), is_fault=True)
