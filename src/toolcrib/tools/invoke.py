"""How the handler of a tool is called, decided once when the tool is prepared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from toolcrib.errors import InvalidTool, UsageError
from toolcrib.tools.signature import (
    Signature,
    check_positional,
    find_context,
    read_signature,
    refuse_generators,
)

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.tool import Tool

Invoke: TypeAlias = "Callable[[Any, ToolContext | None], Any]"
"""Calls a handler with parsed arguments, and with the context if it takes one."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A handler and how it is called. `signature` is set for functions called by keyword."""

    invoke: Invoke
    is_async: bool
    wants_context: bool
    signature: Signature | None = None


def bind(tool: Tool[Any, Any]) -> Bound:
    """Decide how the handler of a tool is called. Without one a tool cannot be invoked."""
    handler = cast("Callable[..., Any] | None", tool.handler)
    if handler is None:
        return Bound(_refusal(tool), is_async=False, wants_context=False)
    refuse_generators(handler, tool.name)
    bound = _bind(tool, handler)
    if getattr(tool, "handle_provider_output", None) is None:
        return bound
    # Imported with the first such tool: few have a hook of their own.
    from toolcrib.tools.output_hook import beside_handler

    invoke = beside_handler(bound.invoke, tool, is_async=bound.is_async)
    return replace(bound, invoke=invoke, wants_context=True)


def _bind(tool: Tool[Any, Any], handler: Callable[..., Any]) -> Bound:
    match tool.calling:
        case "input":
            check_positional(handler, tool.name)
            return Bound(handler, is_async=is_async(handler), wants_context=True)
        case "keywords":
            return _bind_keywords(handler, tool.name)
        case "params":
            return _bind_params(handler, tool.name)


def is_async(handler: Callable[..., Any]) -> bool:
    """Whether calling the handler returns a coroutine."""
    call = getattr(handler, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _bind_keywords(handler: Callable[..., Any], name: str) -> Bound:
    signature = read_signature(handler, name)
    return Bound(
        _keyword_call(handler, signature),
        is_async=is_async(handler),
        wants_context=signature.context is not None,
        signature=signature,
    )


def _keyword_call(handler: Callable[..., Any], signature: Signature) -> Invoke:
    context_name = signature.context

    def call(arguments: Any, _: ToolContext | None) -> Any:
        return handler(**arguments)

    def call_with_context(arguments: Any, context: ToolContext | None) -> Any:
        return handler(context, **arguments)

    def call_with_keyword(arguments: Any, context: ToolContext | None) -> Any:
        return handler(**arguments, **{cast("str", context_name): context})

    if context_name is None:
        return call
    return call_with_context if signature.is_context_first else call_with_keyword


def _bind_params(handler: Callable[..., Any], name: str) -> Bound:
    parameters = list(inspect.signature(handler).parameters.values())
    context = next((p for p in parameters if p.name == "context"), None) or find_context(parameters)
    others = [
        parameter
        for parameter in parameters
        if parameter is not context and _must_be_filled(parameter)
    ]
    if len(others) > 1 or any(parameter.kind is Parameter.KEYWORD_ONLY for parameter in others):
        raise InvalidTool(
            f"tool {name!r}: the handler takes {', '.join(p.name for p in others)}; it must take "
            "one params object and, if it wants it, a `context` keyword. For a plain function with "
            "several arguments use @tool"
        )
    takes_params = any(
        _is_positional(parameter) for parameter in parameters if parameter is not context
    )
    call = _plain_call(handler, takes_params)
    if context is not None:
        call = _context_call(handler, context, takes_params, is_first=context is parameters[0])
    return Bound(call, is_async=is_async(handler), wants_context=context is not None)


def _plain_call(handler: Callable[..., Any], takes_params: bool) -> Invoke:
    if takes_params:
        return lambda params, _: handler(params)
    return lambda _, __: handler()


def _context_call(
    handler: Callable[..., Any], context: Parameter, takes_params: bool, *, is_first: bool
) -> Invoke:
    name = context.name
    is_named = context.kind is Parameter.KEYWORD_ONLY
    if not takes_params:
        return lambda _, context_value: (
            handler(**{name: context_value}) if is_named else handler(context_value)
        )
    if is_named and name == "context":
        return lambda params, context_value: handler(params, context=context_value)
    if is_named or (context.kind is Parameter.POSITIONAL_OR_KEYWORD and not is_first):
        return lambda params, context_value: handler(params, **{name: context_value})
    if is_first:
        return lambda params, context_value: handler(context_value, params)
    return lambda params, context_value: handler(params, context_value)


def _is_positional(parameter: Parameter) -> bool:
    return parameter.kind in (
        Parameter.POSITIONAL_ONLY,
        Parameter.POSITIONAL_OR_KEYWORD,
        Parameter.VAR_POSITIONAL,
    )


def _must_be_filled(parameter: Parameter) -> bool:
    is_collecting = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return parameter.default is Parameter.empty and not is_collecting


def _refusal(tool: Tool[Any, Any]) -> Invoke:
    def refuse(_: Any, __: ToolContext | None) -> Any:
        raise UsageError(f"tool {tool.name!r} has no handler here; its place is {tool.place!r}")

    return refuse
