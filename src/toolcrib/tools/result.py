"""`ToolResult`: what a handler returns when a plain value is not enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from toolcrib.errors import UsageError
from toolcrib.tools.type_arguments import TypeArguments

T_co = TypeVar("T_co", covariant=True)

_set = object.__setattr__


@runtime_checkable
class ToolRenderableResult(Protocol):
    """A value that renders itself for the model."""

    def render(self) -> str:
        """Return the text that the model sees instead of the value's JSON."""
        ...


class NamedFields:
    """Lets the fields of a dataclass be read by name, as from a dict: `result["stdout"]`,
    `result.get("stderr", "")`. What is no field is missing.
    """

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return getattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> tuple[str, ...]:
        """Return the names of all fields."""
        return tuple(field.name for field in fields(cast("Any", self)))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a field, or `default` when there is no such field."""
        return getattr(self, name) if name in self else default


@dataclass(frozen=True, slots=True, init=False)
class ToolResult(TypeArguments, Generic[T_co]):
    """A value for the application, a message for the model, and whether the tool succeeded.

    `output` is an alias of `value`, and `error` of the `message` of a failure.
    """

    value: T_co | None = None
    message: str = ""
    success: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)

    def __init__(
        self,
        *,
        value: T_co | None = None,
        message: str = "",
        success: bool = True,
        metadata: Mapping[str, Any] | None = None,
        output: T_co | None = None,
        error: str | None = None,
    ) -> None:
        if output is not None:
            _refuse_both("value", "output", is_taken=value is not None)
            value = output
        if error is not None:
            _refuse_both("message", "error", is_taken=bool(message))
            _refuse_error_of_success(success)
            message = error
        _set(self, "value", value)
        _set(self, "message", message)
        _set(self, "success", success)
        _set(self, "metadata", {} if metadata is None else dict(metadata))

    @property
    def output(self) -> T_co | None:
        """The value."""
        return self.value

    @property
    def error(self) -> str | None:
        """The message of a failure; `None` when the tool succeeded."""
        return None if self.success else self.message


def _refuse_both(name: str, other: str, *, is_taken: bool) -> None:
    if is_taken:
        raise UsageError(
            f"ToolResult got {name}= and {other}=, which are the same field; pass one of them"
        )


def _refuse_error_of_success(success: bool) -> None:
    if success:
        raise UsageError(
            "ToolResult got error= but success is True; pass success=False, or message= for a note"
        )
