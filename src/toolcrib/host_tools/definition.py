"""A tool as a host application defines it: a JSON Schema and a function of input and context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from toolcrib.errors import InvalidTool
from toolcrib.tools.invoke import bind
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext

SOURCE = "host"
"""The source of every host tool; together with the name it is the tool's identity."""

ToolHandler: TypeAlias = "Callable[[dict[str, Any], ToolContext], Awaitable[Any] | Any]"
"""Takes the checked input and the call's context; `def` and `async def` both work."""


class ToolScope(StrEnum):
    """In which sessions a tool is available."""

    GLOBAL = "global"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class HostToolDefinition:
    """A tool of the host application. It is checked here, before anything can call it."""

    name: str
    description: str
    parameters: dict[str, Any] = field(hash=False)
    """JSON Schema (draft 2020-12) of an object. Mark a secret with `"writeOnly": true`."""
    handler: ToolHandler
    scope: ToolScope = ToolScope.GLOBAL
    category: str | None = None
    requires_approval: bool = False
    timeout: float | None = None
    version: str = "0.0.0"
    is_idempotent: bool = False
    is_read_only: bool = False
    uses: tuple[str, ...] = ()

    _tool: Tool[dict[str, Any], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.scope, ToolScope):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"tool {self.name!r}: scope must be ToolScope.GLOBAL or ToolScope.SESSION, "
                f"not {self.scope!r}"
            )
        for needed in ("parameters", "handler"):
            if getattr(self, needed) is None:
                raise InvalidTool(f"tool {self.name!r} has no {needed}; a host tool needs them")
        tool = self._declared()
        bind(tool)
        object.__setattr__(self, "_tool", tool)
        object.__setattr__(self, "parameters", tool.json_schema)

    def to_tool(self) -> Tool[dict[str, Any], Any]:
        """The same tool in the form that everything else works with."""
        return self._tool

    def _declared(self) -> Tool[dict[str, Any], Any]:
        return Tool[Any, Any](
            name=self.name,
            description=self.description,
            handler=cast("Any", self.handler),
            calling="input",
            json_schema=self.parameters,
            source=SOURCE,
            category=self.category,
            requires_approval=self.requires_approval,
            timeout=self.timeout,
            version=self.version,
            is_idempotent=self.is_idempotent,
            is_read_only=self.is_read_only,
            uses=self.uses,
        )
