"""Arguments between a model, an agent and the executor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import from_json

from toolcrib.calls.validate import encode_arguments

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from toolcrib.tools.prepared import PreparedTool

_INVALID = "\0invalid"
"""A key that no tool has: its arguments are names."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """Arguments that do not fit: as they came, and why."""

    raw: bytes
    error: ValidationError


Refusal = Callable[["RunContext[Any]", bytes], Awaitable[None]]
"""Writes down a call whose arguments do not fit."""


class ArgumentsValidator:
    """Validates what a model sends by the tool's own rules, and gives it to the agent as JSON.

    The executor validates again what comes back: whoever stands in between may have changed it.
    Faults are told by `refuse_invalid`, which knows the call they belong to.
    """

    def __init__(self, tool: PreparedTool) -> None:
        self._parse = tool.parse

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:
        """The arguments as a dict of JSON values, or of one `Invalid`."""
        return self._validate(encode_arguments(input if isinstance(input, str) else bytes(input)))

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:
        """The same, for arguments that are a dict already."""
        return self._validate(encode_arguments(input))

    def _validate(self, raw: bytes) -> dict[str, Any]:
        try:
            self._parse(raw)
        except ValidationError as error:
            return {_INVALID: Invalid(raw, error)}
        return from_json(raw)


def refuse_invalid(refuse: Refusal) -> Callable[..., Awaitable[None]]:
    """A second step of validation: it has invalid arguments written down, and then raises."""

    async def check(ctx: RunContext[Any], **args: Any) -> None:
        invalid = args.get(_INVALID)
        if isinstance(invalid, Invalid):
            await refuse(ctx, invalid.raw)
            raise invalid.error

    return check


def encode(args: dict[str, Any]) -> bytes:
    """What an agent passes on, as the executor takes it."""
    invalid = args.get(_INVALID)
    return invalid.raw if isinstance(invalid, Invalid) else encode_arguments(args)
