"""A tool as a host application defines it: a JSON Schema and a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from toolcrib.errors import InvalidTool, UsageError
from toolcrib.tools.identity import ToolRef, identity_of
from toolcrib.tools.invoke import bind, is_async
from toolcrib.tools.rules import check_callable, check_free
from toolcrib.tools.signature import check_positional, refuse_generators
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.sandbox.command import SandboxOptions
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.decorator import FunctionTool
    from toolcrib.tools.prepared_tool import Describes

SOURCE = "host"
"""The source of every host tool; together with the name it is the tool's identity."""

ToolHandler: TypeAlias = "Callable[[dict[str, Any], ToolContext], Awaitable[Any] | Any]"
"""Takes the checked input and the call's context; `def` and `async def` both work."""

SessionFactory: TypeAlias = "Callable[[ToolContext], ToolHandler | SessionHandler]"
"""Makes the handler for one session, from that session's context."""

AnyTool: TypeAlias = "Describes | Tool[Any, Any] | FunctionTool[..., Any]"
"""A tool in whichever style: a `HostToolDefinition`, a `BaseTool`, a `Tool`, an `@tool`."""

_RULES = (
    "category",
    "requires_approval",
    "timeout",
    "version",
    "is_idempotent",
    "is_read_only",
    "uses",
    "requires",
    "deprecated",
    "output_schema",
)
"""What a definition and a tool both have under one name."""


class ToolScope(StrEnum):
    """In which sessions a tool is available."""

    GLOBAL = "global"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class SessionHandler:
    """A handler that one session has to itself, and what to do when the session ends."""

    handler: ToolHandler
    close: Callable[[], Awaitable[None] | None] | None = None


@dataclass(frozen=True, slots=True)
class HostToolDefinition:
    """A tool of the host application. It is checked here, before anything can call it.

    It has a `handler`, or a `factory` that makes one for each session (scope SESSION), or comes
    from a tool of another style by way of `HostToolDefinition.of`.
    """

    name: str
    description: str
    parameters: dict[str, Any] = field(hash=False)
    """JSON Schema (draft 2020-12) of an object. Mark a secret with `"writeOnly": true`."""
    handler: ToolHandler | None = None
    scope: ToolScope = ToolScope.GLOBAL
    category: str | None = None
    requires_approval: bool = False
    timeout: float | None = None
    version: str = "0.0.0"
    is_idempotent: bool = False
    is_read_only: bool = False
    uses: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    """The capabilities that the connected client must have for the tool to be available."""
    deprecated: str | None = None
    factory: SessionFactory | None = None
    sandbox: SandboxOptions | Mapping[str, Any] | bool = field(default=False, hash=False)
    """Whether each call runs in a confined process of its own; options say within what."""
    output_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """JSON Schema of what it gives. A result that does not fit fails as `invalid_result`."""
    visible_when: Callable[[ToolContext], bool] | None = None
    """Says for one session whether the tool is there at all; without it, it is."""
    typed: Tool[Any, Any] | None = field(default=None, repr=False)
    """The tool of another style that this one was made from; it brings its own parameters."""

    _tool: Tool[Any, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.scope, ToolScope):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"tool {self.name!r}: scope must be ToolScope.GLOBAL or ToolScope.SESSION, "
                f"not {self.scope!r}"
            )
        check_free(self.name)
        check_callable(self.name, "visible_when", self.visible_when)
        self._check_maker()
        tool, parameters = self._declared() if self.typed is None else self._retyped(self.typed)
        object.__setattr__(self, "_tool", tool)
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "output_schema", tool.output_schema)

    @classmethod
    def of(cls, tool: AnyTool) -> HostToolDefinition:
        """A tool of another style (`@tool`, `Tool`, a `BaseTool`) as one of the host's.

        Its own types check its arguments, as they do everywhere else.
        """
        if isinstance(tool, HostToolDefinition):
            return tool
        from toolcrib.tools.prepared_tool import as_tool

        ready = as_tool(tool)
        if ready.place != "local":
            advice = "; offer it with RuntimeConfig(hosted_tools=[...])"
            raise InvalidTool(
                f"tool {ready.name!r} runs in the place {ready.place!r}; the host serves tools "
                f"that have a handler here{advice if ready.place == 'provider' else ''}"
            )
        rules = {rule: getattr(ready, rule) for rule in _RULES}
        return cls(ready.name, ready.description, parameters={}, typed=ready, **rules)

    @property
    def digest(self) -> str:
        """The digest of the tool's identity: with another digest it is another tool."""
        return identity_of(self._tool, self.parameters).digest

    @property
    def ref(self) -> ToolRef:
        """Which tool this is exactly, for events, approvals and grants."""
        return ToolRef(self.name, SOURCE, self.version, self.digest, self._tool.place)

    @property
    def declared(self) -> Tool[dict[str, Any], Any]:
        """The tool as it is declared, without the handlers that a factory makes of it."""
        return self._tool

    def to_tool(self) -> Tool[dict[str, Any], Any]:
        """The same tool in the form that everything else works with."""
        if self.factory is not None:
            raise InvalidTool(
                f"tool {self.name!r} has a handler of its own in each session; register it and "
                "take it from the registry's session tools"
            )
        return self._tool

    def handled_by(self, handler: ToolHandler) -> HostToolDefinition:
        """The tool of one session, with the handler that its factory made."""
        return replace(self, handler=handler, factory=None)

    def _check_maker(self) -> None:
        makers = ("handler", "factory", "typed")
        present = [maker for maker in makers if getattr(self, maker) is not None]
        if not present:
            raise InvalidTool(
                f"tool {self.name!r} has no handler; give it one, or a factory that makes one "
                "for each session"
            )
        if len(present) > 1:
            raise InvalidTool(f"tool {self.name!r} has both {' and '.join(present)}; keep one")
        if self.factory is not None:
            self._check_factory(self.factory)
        if self.sandbox is not False and self.handler is None:
            raise InvalidTool(
                f"tool {self.name!r}: only a handler of plain input can run in a sandbox, because "
                f"nothing of this process is there; give it a handler in place of {present[0]}"
            )

    def _check_factory(self, factory: SessionFactory) -> None:
        check_callable(self.name, "factory", factory)
        if self.scope is not ToolScope.SESSION:
            raise InvalidTool(
                f"tool {self.name!r}: a factory makes a handler for each session; "
                "write scope=ToolScope.SESSION"
            )
        if is_async(factory):
            raise InvalidTool(
                f"tool {self.name!r}: the factory must be a plain function; "
                "what has to be awaited is for the handler to open when it is first called"
            )

    def _declared(self) -> tuple[Tool[Any, Any], Any]:
        if self.parameters is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise InvalidTool(f"tool {self.name!r} has no parameters; a host tool needs them")
        tool = Tool[Any, Any](
            name=self.name,
            description=self.description,
            handler=cast("Any", self._confined_handler()),
            calling="input",
            json_schema=self.parameters,
            source=SOURCE,
            **self._rules(),
        )
        bind(tool)
        return tool, tool.json_schema

    def _confined_handler(self) -> ToolHandler | None:
        if self.sandbox is False or self.handler is None:
            return self.handler
        from toolcrib.sandbox.command import SandboxOptions
        from toolcrib.sandbox.handler import SandboxedHandler

        check_callable(self.name, "handler", self.handler)
        # Of what stands for it only the name could be checked.
        check_positional(self.handler, self.name)
        refuse_generators(self.handler, self.name)
        try:
            options = SandboxOptions.of(self.sandbox)
        except UsageError as error:
            raise InvalidTool(f"tool {self.name!r}: {error}") from error
        return SandboxedHandler(self.handler, options, self.name)

    def _retyped(self, typed: Tool[Any, Any]) -> tuple[Tool[Any, Any], Any]:
        from toolcrib.tools.prepared_tool import prepare

        tool = replace(
            typed,
            name=self.name,
            description=self.description,
            source=SOURCE,
            **self._rules(),
        )
        return tool, prepare(tool).params.schema

    def _rules(self) -> dict[str, Any]:
        return {rule: getattr(self, rule) for rule in _RULES}
