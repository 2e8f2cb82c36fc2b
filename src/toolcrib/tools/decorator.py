"""`@tool`: a typed function becomes a tool and stays a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast, get_args, get_origin, overload

from toolcrib.errors import InvalidTool
from toolcrib.tools.result import ToolResult
from toolcrib.tools.rules import ToolRules
from toolcrib.tools.signature import namespace, read_signature, summary
from toolcrib.tools.tool import Tool

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(Generic[P, R]):
    """A function that is also a tool: call it as before, or register it with a session.

    A framework that takes a plain function reads its signature and then calls it past the gate. A
    tool that requires approval has no signature, so that no framework takes it.
    """

    __wrapped__: Callable[P, R]
    __name__: str

    def __init__(self, function: Callable[P, R], tool: Tool[Any, Any]) -> None:
        functools.update_wrapper(self, function)
        self.tool = tool

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself; no stage of a tool call is involved."""
        return self.__wrapped__(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        if self.tool.requires_approval:
            raise ValueError(
                f"tool {self.tool.name!r} requires approval, which a plain function call would "
                "not ask for; in a pydantic-ai agent write "
                f"Agent(toolsets=[Toolset(AgentContext(), [{self.__name__}])])"
            )
        return inspect.signature(self.__wrapped__)

    def __repr__(self) -> str:
        return f"<tool {self.tool.name!r}: {self.__wrapped__!r}>"


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    **rules: Unpack[ToolRules],
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **rules: Unpack[ToolRules],
) -> Any:
    """Make a tool of a function, sync or async.

    The name is the function's, the description its docstring, and the arguments are its typed
    parameters. A parameter of type `ToolContext` gets the context and is not shown to the model.
    """

    def declare(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return FunctionTool(function, _tool_of(function, name, description, rules))

    return declare if function is None else declare(function)


def _tool_of(
    function: Callable[..., Any], name: str | None, description: str | None, rules: ToolRules
) -> Tool[Any, Any]:
    tool_name = name if name is not None else getattr(function, "__name__", "")
    read_signature(function, tool_name)
    return Tool[Any, Any](
        name=tool_name,
        description=description
        if description is not None
        else _description_of(function, tool_name),
        handler=function,
        result_type=_result_type(function),
        calling="keywords",
        **rules,
    )


def _description_of(function: Callable[..., Any], name: str) -> str:
    text = summary(function)
    if not text:
        raise InvalidTool(
            f"tool {name!r} has no description; give the function a docstring, "
            "or pass description= to @tool"
        )
    return text


def _result_type(function: Callable[..., Any]) -> Any:
    """Return the return annotation, or `None` when it cannot be evaluated yet."""
    annotation = getattr(function, "__annotations__", {}).get("return")
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, namespace(function))
        except Exception:
            return None
    if get_origin(annotation) is ToolResult:
        annotation = get_args(annotation)[0]
    return cast("Any", annotation)
