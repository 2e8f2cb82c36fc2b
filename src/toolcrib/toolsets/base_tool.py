"""A tool written as a class."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from inspect import Parameter
from typing import Any, ClassVar

from toolcrib.errors import InvalidTool
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
        """False keeps the tool out of a toolset that skips unavailable tools."""
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
