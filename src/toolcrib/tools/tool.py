"""`Tool`: a name, types, a handler, and the rules that go with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
)

from toolcrib.errors import InvalidTool
from toolcrib.tools import rules
from toolcrib.tools.example import ToolExample, fits, is_typed_dict
from toolcrib.tools.json_schema import check_output_schema, check_schema
from toolcrib.tools.type_arguments import TypeArguments

if TYPE_CHECKING:
    from toolcrib.tools.argument_transform import ArgumentTransform
    from toolcrib.tools.audience import Audience
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.function_options import FunctionOptions
    from toolcrib.tools.identity import Place
    from toolcrib.tools.result import ToolResult


P = TypeVar("P")
R = TypeVar("R")
P_contra = TypeVar("P_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

Calling: TypeAlias = Literal["params", "keywords", "input"]
"""How a handler is called: with the params object, with one keyword for each argument, or with
the plain JSON input and the context."""


class ContextHandler(Protocol[P_contra, R_co]):
    """A handler that takes the context of its call."""

    def __call__(
        self, params: P_contra, /, *, context: ToolContext
    ) -> ToolResult[R_co] | R_co | Awaitable[ToolResult[R_co] | R_co]:
        """Run the tool."""
        ...


class PlainHandler(Protocol[P_contra, R_co]):
    """A handler that takes only its params."""

    def __call__(
        self, params: P_contra, /
    ) -> ToolResult[R_co] | R_co | Awaitable[ToolResult[R_co] | R_co]:
        """Run the tool."""
        ...


Handler: TypeAlias = ContextHandler[P, R] | PlainHandler[P, R]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(TypeArguments, Generic[P, R]):
    """A tool that a model or a program can call. Everything is checked at declaration.

    `Tool[Params, Result](name=..., description=..., handler=...)` takes its types from the
    brackets. The connected client runs a tool without a handler.
    """

    _type_fields: ClassVar[tuple[str, ...]] = ("params_type", "result_type")

    name: str
    description: str
    handler: Handler[P, R] | None = None
    params_type: type[P] | None = None
    """A dataclass, a pydantic model or a TypedDict; `None` for a tool without arguments."""
    result_type: type[R] | None = None
    examples: tuple[ToolExample[P, R], ...] = field(default=(), hash=False)
    accepts_overrides: bool = True
    timeout: float | None = None
    """Seconds until the handler is stopped; `None` takes the executor's default."""
    requires_approval: bool = False
    is_idempotent: bool = False
    is_read_only: bool = False
    one_at_a_time: bool = False
    version: str = "0.0.0"
    category: str | None = None
    max_result_chars: int | None = None
    """How much of a result the model sees; `None` takes the executor's default."""
    cut: rules.Cut = "head"
    uses: tuple[str, ...] = ()
    """The other tools that the handler may call."""
    deprecated: str | None = None
    """A note that the model and the operator see."""
    source: str = rules.PYTHON
    approval_metadata: Callable[[], Mapping[str, Any] | None] | None = None
    requires: tuple[str, ...] = ()
    """Capabilities that the connected client needs for the tool to be declared."""
    calling: Calling = "params"
    json_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """The arguments as JSON Schema, when the handler takes plain JSON input."""
    output_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """The JSON Schema of the result. A result that does not fit is a failure."""
    available_when: Callable[[], bool] | None = None
    """Whether it can be used now, asked whenever tools are listed and called. While it says no, or
    fails, the tool is neither listed nor run."""
    instruction: Callable[[ToolContext], str | None] | None = None
    """Text for the model's instructions, read for every prompt of a runtime and every run of an
    agent; None adds nothing."""
    function_options: FunctionOptions | None = None
    """How it is offered to a model: deferred, in a group, to programs, as free text."""
    visible_to: Audience | None = None
    """To whom it is shown; None shows it to everybody. For others it is not there."""
    argument_transform: ArgumentTransform | None = None
    """How callers' arguments become those of the handler; None takes them as they are."""
    is_foreign: bool = False
    """Whether its schemas come from outside the host application, from a client or an MCP server.
    A foreign schema that is costly to check is refused, and each check is bounded."""

    def __post_init__(self) -> None:
        rules.check_text("?", "source", self.source)
        rules.check_name(self.name, self.source)
        rules.check_description(self.name, self.description, self.source)
        rules.check_callable(self.name, "handler", self.handler)
        rules.check_callable(self.name, "available_when", self.available_when)
        rules.check_callable(self.name, "instruction", self.instruction)
        if self.function_options is not None:
            check_function_options(self.name, self.function_options)
        self._check_rules()
        self._check_params_type()
        self._check_calling()
        self._check_output()
        self._check_examples()

    @property
    def place(self) -> Place:
        """Where a call of this tool runs."""
        if self.handler is None:
            return "client"
        return "sandbox" if confines_itself(self.handler) else "local"

    def _check_rules(self) -> None:
        name = self.name
        rules.check_timeout(name, self.timeout)
        rules.check_version(name, self.version)
        rules.check_result_limit(name, self.max_result_chars, self.cut)
        rules.check_names(name, "uses", self.uses)
        rules.check_names(name, "requires", self.requires)
        rules.check_text(name, "category", self.category)
        rules.check_text(name, "deprecated", self.deprecated)
        rules.check_callable(name, "approval_metadata", self.approval_metadata)

    def _check_params_type(self) -> None:
        params_type: Any = self.params_type
        if params_type is None or _has_fields(params_type):
            return
        raise InvalidTool(
            f"tool {self.name!r}: params_type must be a dataclass, a pydantic model, a TypedDict "
            f"or None, not {params_type!r}"
        )

    def _check_calling(self) -> None:
        if self.json_schema is not None:
            # A copy: a schema changed after the check would not be the one that was checked.
            object.__setattr__(
                self,
                "json_schema",
                check_schema(self.name, self.json_schema, is_foreign=self.is_foreign),
            )
        if (self.json_schema is not None) != (self.calling == "input"):
            raise InvalidTool(
                f"tool {self.name!r}: calling='input' and json_schema go together; "
                "a handler of plain input needs both, any other neither"
            )
        if self.calling == "keywords" and self.handler is None:
            raise InvalidTool(f"tool {self.name!r}: calling='keywords' needs a handler to call")

    def _check_output(self) -> None:
        if self.output_schema is not None:
            checked = check_output_schema(self.name, self.output_schema, is_foreign=self.is_foreign)
            object.__setattr__(self, "output_schema", checked)

    def _check_examples(self) -> None:
        if not isinstance(self.examples, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(f"tool {self.name!r}: examples must be a tuple of ToolExample")
        for number, example in enumerate(self.examples):
            self._check_example(number, example)

    def _check_example(self, number: int, example: ToolExample[P, R]) -> None:
        for part, value, expected in (
            ("input", example.input, self.params_type),
            ("output", example.output, self.result_type),
        ):
            if not fits(value, expected):
                raise InvalidTool(
                    f"tool {self.name!r}: the {part} of examples[{number}] must be "
                    f"{_type_name(expected)}, not {type(value).__name__}"
                )


def check_function_options(name: str, options: object) -> None:
    """Refuse what is no `FunctionOptions`."""
    from toolcrib.tools.function_options import FunctionOptions

    if not isinstance(options, FunctionOptions):
        raise InvalidTool(
            f"tool {name!r}: function_options must be FunctionOptions, not {options!r}"
        )


def confines_itself(handler: object) -> bool:
    """Whether a handler runs its work in a sandbox."""
    return getattr(handler, "place", None) == "sandbox"


def _has_fields(annotation: Any) -> bool:
    # The attribute tells a pydantic model without importing pydantic.
    is_class = isinstance(annotation, type)
    is_model = is_class and hasattr(cast("Any", annotation), "__pydantic_fields__")
    is_data = is_class and is_dataclass(cast("Any", annotation))
    return is_model or is_data or is_typed_dict(cast("Any", annotation))


def _type_name(expected: Any) -> str:
    return getattr(expected, "__name__", None) or str(expected)
