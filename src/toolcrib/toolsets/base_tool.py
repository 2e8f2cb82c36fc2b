"""A tool written as a class."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import replace
from inspect import Parameter
from typing import Any, ClassVar, cast

from toolcrib.calls.threads import shared_threads
from toolcrib.errors import InvalidTool
from toolcrib.tools.decorator import FunctionTool
from toolcrib.tools.signature import find_context
from toolcrib.tools.tool import Tool

AsyncHandler = Callable[..., Coroutine[Any, Any, Any]]

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class BaseTool(ABC):
    """Subclass it, name it, describe it, and write `call`.

    The parameters of `call` after the context are the tool's arguments; their types become its
    schema. The other class attributes are the tool's rules, as in `Tool`.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    timeout: ClassVar[float | None] = None
    requires_approval: ClassVar[bool] = False
    is_idempotent: ClassVar[bool] = False
    is_read_only: ClassVar[bool] = False
    one_at_a_time: ClassVar[bool] = False
    version: ClassVar[str] = "0.0.0"
    category: ClassVar[str | None] = None
    max_result_chars: ClassVar[int | None] = None
    uses: ClassVar[tuple[str, ...]] = ()
    deprecated: ClassVar[str | None] = None
    max_retries: ClassVar[int | None] = None
    """How often a model may retry it in a pydantic-ai agent; None uses the toolset's limit."""

    @abstractmethod
    async def call(self, ctx: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run the tool. `ctx` is the context of the call."""

    def is_available(self) -> bool:
        """Whether the tool can be used now. While it cannot, it is neither listed nor run."""
        return True

    def get_instruction(self, ctx: Any) -> str | None:
        """Text for the system prompt, read at every run; None adds nothing."""
        return None

    def get_approval_metadata(self) -> dict[str, Any] | None:
        """Facts for the approver about calls of this tool."""
        return None

    def to_tool(self, handler: AsyncHandler | None = None) -> Tool[Any, Any]:
        """The tool that this class describes; `handler` replaces `call`."""
        for attribute in ("name", "description"):
            if not hasattr(self, attribute):
                raise InvalidTool(
                    f"{type(self).__name__} has no `{attribute}`; add it as a class attribute"
                )
        own = type(self)
        return Tool(
            name=self.name,
            description=self.description,
            handler=_context_first(self.name, handler or self.call),
            calling="keywords",
            approval_metadata=self.get_approval_metadata,
            timeout=self.timeout,
            requires_approval=self.requires_approval,
            is_idempotent=self.is_idempotent,
            is_read_only=self.is_read_only,
            one_at_a_time=self.one_at_a_time,
            version=self.version,
            category=self.category,
            max_result_chars=self.max_result_chars,
            uses=self.uses,
            deprecated=self.deprecated,
            available_when=(
                None if own.is_available is BaseTool.is_available else self.is_available
            ),
            instruction=(
                None if own.get_instruction is BaseTool.get_instruction else self.get_instruction
            ),
        )


def _context_first(name: str, handler: AsyncHandler) -> AsyncHandler:
    """The handler, its first parameter annotated as the context whatever its name and type."""
    if not inspect.iscoroutinefunction(handler):
        raise InvalidTool(f"tool {name!r}: `call` is not async; write `async def call`")
    signature = inspect.signature(handler)
    parameters = list(signature.parameters.values())
    context = find_context(parameters)
    is_first = bool(parameters) and parameters[0].kind in _POSITIONAL
    if not is_first or context not in (None, parameters[0]):
        raise InvalidTool(
            f"tool {name!r}: the first parameter of `call` takes the context; "
            "write `async def call(self, ctx, ...)`"
        )
    if context is not None:
        return handler

    @functools.wraps(handler)
    async def call(ctx: Any, /, **args: Any) -> Any:
        return await handler(ctx, **args)

    parameters[0] = parameters[0].replace(annotation="ToolContext")
    call.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
    return call


class GovernedFunction(BaseTool):
    """A function under `@tool`, as a toolset runs it."""

    def __init__(self, function: FunctionTool[..., Any]) -> None:
        self._tool = function.tool
        self._call = _call_of(cast("Callable[..., Any]", self._tool.handler))
        # With the parameters of this function: the schema is read from them.
        self.call = self._call  # pyright: ignore[reportAttributeAccessIssue]
        self.name = self._tool.name  # pyright: ignore[reportAttributeAccessIssue]
        self.description = self._tool.description  # pyright: ignore[reportAttributeAccessIssue]

    async def call(self, ctx: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""
        return await self._call(ctx, *args, **kwargs)

    def to_tool(self, handler: AsyncHandler | None = None) -> Tool[Any, Any]:
        """The tool of the function; `handler` replaces `call`."""
        return replace(self._tool, handler=handler or self.call)


def _call_of(function: Callable[..., Any]) -> AsyncHandler:
    """The function as an async handler that takes the context first, and its arguments by name."""
    parameters = list(inspect.signature(function).parameters.values())
    context = find_context(parameters)

    @functools.wraps(function)
    async def call(ctx: Any, /, **args: Any) -> Any:
        if context is not None:
            args[context.name] = ctx
        if inspect.iscoroutinefunction(function):
            return await function(**args)
        return await shared_threads().submit(functools.partial(function, **args))

    first = Parameter("ctx", Parameter.POSITIONAL_ONLY, annotation=_context_type(context))
    arguments = [parameter for parameter in parameters if parameter is not context]
    call.__signature__ = inspect.Signature([first, *arguments])  # pyright: ignore[reportAttributeAccessIssue]
    return call


def _context_type(context: Parameter | None) -> Any:
    is_typed = context is not None and context.annotation is not Parameter.empty
    return context.annotation if context is not None and is_typed else "ToolContext"
