"""Functions as tools: the parameters that the model fills, the one that takes the context, and what
the docstring says about each.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter
from types import SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from toolcrib.errors import InvalidTool

# By name and not by identity: the class may be imported for type checking only, and pydantic-ai's
# own run context must not be imported at all.
_CONTEXT_TYPE = re.compile(r"(?:\w+\.)*(?:ToolContext|RunContext|AgentContext)\b")
_CONTEXT_NAMES = ("ctx", "context")
_NOT_ARGUMENTS = {
    Parameter.VAR_POSITIONAL: "collects positional arguments; give each argument a name",
    Parameter.VAR_KEYWORD: "collects keywords; give each argument a name",
    Parameter.POSITIONAL_ONLY: "is positional-only; arguments are passed by name, so drop the '/'",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter that the model fills. `default` is `Parameter.empty` when there is none."""

    name: str
    annotation: Any
    default: Any

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments of a function, and the name of the parameter that takes the context."""

    arguments: tuple[Argument, ...]
    context: str | None
    is_context_first: bool


def read_signature(function: Callable[..., Any], tool: str) -> Signature:
    """Read a function whose arguments are passed by keyword."""
    refuse_generators(function, tool)
    parameters = list(inspect.signature(function).parameters.values())
    context = find_context(parameters)
    arguments = tuple(
        _argument(parameter, tool) for parameter in parameters if parameter is not context
    )
    if context is None:
        return Signature(arguments, context=None, is_context_first=False)
    is_first = context is parameters[0] and context.kind is not Parameter.KEYWORD_ONLY
    return Signature(arguments, context=context.name, is_context_first=is_first)


def find_context(parameters: list[Parameter]) -> Parameter | None:
    """Return the parameter that takes the context: by type, or by name when it has no type."""
    for parameter in parameters:
        if _is_context_type(parameter.annotation):
            return parameter
    for parameter in parameters:
        is_untyped = parameter.annotation in (Parameter.empty, Any, "Any")
        if is_untyped and parameter.name in _CONTEXT_NAMES:
            return parameter
    return None


def resolve_types(function: Callable[..., Any], signature: Signature, tool: str) -> dict[str, Any]:
    """Return the types of the arguments by name. String annotations are evaluated."""
    types = {argument.name: argument.annotation for argument in signature.arguments}
    unread = {name: hint for name, hint in types.items() if not isinstance(hint, type)}
    if not unread:
        return types
    names = namespace(function)
    holder = SimpleNamespace(__annotations__=unread)
    try:
        return types | get_type_hints(holder, names, names, include_extras=True)
    except Exception as error:
        raise InvalidTool(
            f"tool {tool!r}: the type of a parameter cannot be read: {error}; import or define it "
            "at module level, outside `if TYPE_CHECKING:`"
        ) from error


def namespace(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the globals of the module that defines a function."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__globals__") and not inspect.ismethod(function):
        function = type(function).__call__
    return getattr(function, "__globals__", {})


def refuse_generators(function: Callable[..., Any], tool: str) -> None:
    """Refuse a handler that yields: a handler returns one value."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTool(
            f"tool {tool!r}: the handler yields; return one value, and report steps on the way "
            "with ctx.progress()"
        )


def check_positional(function: Callable[..., Any], tool: str) -> None:
    """Refuse a handler of plain input that does not take (input, context)."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise InvalidTool(
            f"tool {tool!r}: the handler must take two arguments, (input, context): {error}"
        ) from error


def _argument(parameter: Parameter, tool: str) -> Argument:
    fault = _NOT_ARGUMENTS.get(parameter.kind)
    if fault is None and parameter.annotation is Parameter.empty:
        fault = "has no type; annotate it, so that arguments can be checked"
    if fault is not None:
        raise InvalidTool(f"tool {tool!r}: parameter {parameter.name!r} {fault}")
    return Argument(parameter.name, parameter.annotation, parameter.default)


def _is_context_type(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return _CONTEXT_TYPE.match(annotation.strip("\"' ")) is not None
    if get_origin(annotation) in (Union, UnionType):
        return any(_is_context_type(choice) for choice in get_args(annotation))
    named = getattr(annotation, "__origin__", annotation)
    return _CONTEXT_TYPE.fullmatch(getattr(named, "__name__", "")) is not None


_HEADINGS = "Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?|Attributes"
_SECTION = re.compile(
    rf"^(?:(?P<google>(?:{_HEADINGS}):\s*$)"
    rf"|(?P<numpy>(?:{_HEADINGS})\s*\n-{{3,}}\s*$)"
    r"|(?P<rest>:(?:param|parameter|arg|argument|returns?|rtype|raises|type)\b.*:))",
    re.MULTILINE,
)


def summary(function: Callable[..., Any]) -> str:
    """Return the docstring up to its first section."""
    text = inspect.getdoc(function) or ""
    section = _SECTION.search(text)
    return (text[: section.start()] if section else text).strip()


def argument_descriptions(function: Callable[..., Any]) -> dict[str, str]:
    """Return the description of each argument in the docstring (Google, NumPy or reST style)."""
    text = inspect.getdoc(function) or ""
    section = _SECTION.search(text)
    if section is None:
        # Parsing costs more than building the schema, and most docstrings have nothing to parse.
        return {}
    from docstring_parser import DocstringStyle, ParseError, parse

    styles = {
        "google": DocstringStyle.GOOGLE,
        "numpy": DocstringStyle.NUMPYDOC,
        "rest": DocstringStyle.REST,
    }
    try:
        # The parser takes the first line for a summary and would lose the indent of a section.
        parsed = parse("\n" + text, style=styles[section.lastgroup or "google"])
    except ParseError:
        # A docstring is written for people; an odd one must not keep a tool from working.
        return {}
    return {
        parameter.arg_name: " ".join(parameter.description.split())
        for parameter in parsed.params
        if parameter.description
    }
