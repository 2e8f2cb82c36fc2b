"""Stage two, validate: raw arguments become typed params, and those canonical JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import PydanticSerializationError, to_json

from toolcrib.calls.digest import digest
from toolcrib.errors import CallEnded, UsageError
from toolcrib.failures import Fault
from toolcrib.ledger.encoding import is_deeper

if TYPE_CHECKING:
    from toolcrib.calls.call import Call

MAX_DEPTH = 150
"""How deep arguments may be nested: approval requests and states hold them, and are deeper."""
_SHORT = 2 * MAX_DEPTH
"""JSON of no more bytes than this is not so deep, and need not be looked at."""

RawArguments = bytes | str | Mapping[str, Any] | None
"""Arguments as they arrive: JSON text, or a mapping that will be turned into JSON."""


def encode_arguments(arguments: RawArguments) -> bytes:
    """Arguments as JSON bytes, so that nobody can change them any more. An empty text is `{}`.

    Raises `UsageError` for a mapping that JSON cannot hold: no model can send one.
    """
    if isinstance(arguments, bytes):
        return bytes(arguments) or b"{}"
    if isinstance(arguments, str):
        return arguments.encode(errors="surrogatepass") or b"{}"
    if arguments is None:
        return b"{}"
    try:
        return to_json(arguments, fallback=_as_dict)
    except (PydanticSerializationError, TypeError) as error:
        raise UsageError(f"the arguments are not JSON: {error}") from None


def _as_dict(value: object) -> dict[Any, Any]:
    """Any mapping can be written; the encoder knows only dicts."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"there is a {type(value).__name__} in them")


def validate(call: Call, max_bytes: int) -> None:
    """Turn raw arguments into typed params, or end the call with a fault per mistake."""
    size = len(call.arguments)
    if size > max_bytes:
        # The record names what was refused by its digest; keeping it would make the cap useless.
        digest(call)
        call.arguments = b""
        raise CallEnded(
            "invalid_arguments",
            f"The arguments of `{call.name}` are {size} bytes; at most {max_bytes} are taken.",
        )
    take(call, call.arguments)


def take(call: Call, submitted: bytes, *, after: str = "") -> None:
    """Make `submitted` the arguments of the call: its params, and their canonical JSON.

    Ends the call, naming every fault by JSON pointer, when they are not valid.
    """
    if len(submitted) > _SHORT:
        _check_depth(call, submitted)
    try:
        call.params = params = call.tool.parse(submitted)
    except Exception as error:
        raise _invalid(call, error, after) from None
    try:
        call.arguments = call.tool.dump(params)
    except Exception as error:
        raise _unwritable(call, error) from None
    if len(call.arguments) > _SHORT:
        _check_depth(call, call.arguments)
    call.submitted = submitted


def _check_depth(call: Call, arguments: bytes) -> None:
    """End a call whose arguments are so deep that what holds them could not be read back."""
    if is_deeper(arguments, MAX_DEPTH):
        raise CallEnded(
            "invalid_arguments",
            f"The arguments of `{call.name}` are nested more than {MAX_DEPTH} deep.",
        )


def take_again(call: Call) -> None:
    """Make the params of a frozen call anew: exactly those that were decided on, or the call ends.

    Validators that change their own results give them again from what was submitted; a default
    that is new each time is found in the canonical form.
    """
    frozen, submitted = call.arguments, call.submitted
    fault: CallEnded | None = None
    for source in (submitted, frozen):
        try:
            take(call, source)
        except CallEnded as ended:
            fault = fault or ended
        else:
            if call.arguments == frozen:
                return
        call.arguments, call.submitted, call.params = frozen, submitted, None
    raise fault or CallEnded(
        "unavailable",
        f"Validation makes other arguments for `{call.name}` than those that were frozen; the "
        "model has to call again.",
    )


def _unwritable(call: Call, error: Exception) -> CallEnded:
    # Only the error's name: its text may quote the value.
    return CallEnded(
        "invalid_arguments",
        f"The arguments of `{call.name}` have a type that cannot be written as JSON "
        f"({type(error).__name__}), so nobody can judge them; nothing ran. Whoever wrote the tool "
        "has to give the type a serializer (pydantic.PlainSerializer).",
    )


def _invalid(call: Call, error: Exception, after: str) -> CallEnded:
    faults = call.tool.params.faults(error)
    return CallEnded("invalid_arguments", describe(call.name, faults, after), faults=faults)


def describe(name: str, faults: tuple[Fault, ...], after: str = "") -> str:
    """One sentence and one line per fault, for the model."""
    lines = [f"- {fault.pointer or '/'}: {fault.message}" for fault in faults]
    return "\n".join([f"The arguments of `{name}` are not valid{after}:", *lines])
