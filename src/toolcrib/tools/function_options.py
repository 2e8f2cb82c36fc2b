"""How a tool that this process runs is offered to a model, besides its name and arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import (
    ToolCaller,
    check_callers,
    check_choice,
    check_flag,
    check_named,
    check_text,
)

GrammarSyntax: TypeAlias = Literal["lark", "regex"]

_NAMESPACE: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A group of functions that a model finds together. Equal ones are one group."""

    name: str
    description: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAMESPACE.fullmatch(self.name):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"Namespace.name must match {_NAMESPACE.pattern}; {self.name!r} does not"
            )
        check_named("Namespace.description", self.description)


@dataclass(frozen=True, slots=True)
class FreeForm:
    """The model writes one plain text in the place of JSON arguments. With a grammar, only text
    that fits it.
    """

    syntax: GrammarSyntax | None = None
    definition: str | None = None

    def __post_init__(self) -> None:
        check_choice("FreeForm.syntax", self.syntax, get_args(GrammarSyntax))
        check_text("FreeForm.definition", self.definition)
        if (self.syntax is None) != (self.definition is None):
            raise InvalidTool("FreeForm takes syntax and definition together, or neither")

    @property
    def has_grammar(self) -> bool:
        """Whether the text must fit a grammar."""
        return self.definition is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """How a tool of this process is offered: at once or when it is searched for, in which group,
    to whom, and in which form it is called.
    """

    defer_loading: bool = False
    """Whether the model sees it only after a tool search; the prompt must have one."""
    namespace: Namespace | None = None
    allowed_callers: tuple[ToolCaller, ...] | None = None
    """`("programmatic",)` for a tool that only programs of the model call; the prompt must have
    `program_tool()`. `None`: the model alone."""
    free_form: FreeForm | None = None
    """For a tool with one argument, a text."""

    def __post_init__(self) -> None:
        check_flag("FunctionOptions.defer_loading", self.defer_loading)
        _check_type("namespace", self.namespace, Namespace)
        check_callers("FunctionOptions.allowed_callers", self.allowed_callers)
        _check_type("free_form", self.free_form, FreeForm)

    @property
    def is_programmatic(self) -> bool:
        """Whether programs of the model may call it."""
        return "programmatic" in (self.allowed_callers or ())


def _check_type(name: str, value: object, expected: type[Any]) -> None:
    if value is not None and not isinstance(value, expected):
        raise InvalidTool(
            f"FunctionOptions.{name} must be None or a {expected.__name__}, not {value!r}"
        )


def free_form_argument(name: str, schema: Any) -> str:
    """Return the one argument of a free-form tool. Raises `InvalidTool` when there is not exactly
    one, or it is no text.
    """
    properties: dict[str, Any] = schema.get("properties", {})
    if len(properties) == 1:
        ((argument, described),) = properties.items()
        if isinstance(described, dict) and described.get("type") == "string":  # pyright: ignore[reportUnknownMemberType]
            return argument
    raise InvalidTool(
        f"tool {name!r}: free_form needs exactly one argument, of type str; it has "
        f"{', '.join(properties) or 'none'}"
    )
