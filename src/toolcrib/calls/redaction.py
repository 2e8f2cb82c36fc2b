"""What may be shown of a call's arguments and results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from toolcrib.failures import Failure

if TYPE_CHECKING:
    from toolcrib.calls.call import Call


def shown_arguments(call: Call) -> Any:
    """The arguments without their secrets; None when it is not known where the secrets are."""
    tool = call.prepared
    if tool is None:
        return None
    is_misshapen = call.failure is not None and call.failure.kind == "invalid_arguments"
    if tool.redactor is None:
        return _read(call.arguments)
    return None if is_misshapen else tool.redactor.redact_json(call.arguments)


def scrub(call: Call, data: Any) -> Any:
    """`data` (JSON) without the secrets that this call was given as arguments."""
    tool = call.prepared
    if tool is None or tool.redactor is None:
        return data
    return tool.redactor.scrubber_json(call.arguments).scrub(data)


def shown_value(call: Call) -> Any:
    """The value as JSON, without secrets."""
    value = call.text_value if call.value_json is None else from_json(call.value_json)
    return scrub(call, value)


def shown_failure(call: Call, failure: Failure) -> Failure:
    """`failure` without secrets, in text that can be sent."""
    message = encodable(scrub(call, failure.message))
    faults = tuple(
        replace(fault, message=encodable(scrub(call, fault.message))) for fault in failure.faults
    )
    return replace(failure, message=message, faults=faults)


def loggable(call: Call, error: BaseException) -> BaseException | None:
    """The exception for a log; None where its text or its traceback might quote a secret."""
    tool = call.prepared
    return error if tool is None or tool.redactor is None else None


def encodable(text: str) -> str:
    """`text` as it can be sent and stored: undecodable bytes, which Python smuggles in as lone
    surrogates, are spelt out.
    """
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _read(arguments: bytes) -> Any:
    try:
        return from_json(arguments)
    except ValueError:
        return None
