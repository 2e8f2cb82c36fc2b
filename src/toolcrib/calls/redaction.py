"""What may be shown of a call's arguments and results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from toolcrib.failures import Failure

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.tools.redaction import Scrubber


def has_secrets(call: Call) -> bool:
    """Whether this call, or one that it is part of, was given secrets as arguments or answers."""
    tool = call.prepared
    if tool is not None and tool.redactor is not None:
        return True
    if call.person is not None and call.person.secrets:
        return True
    return call.hides_arguments or (call.enclosing is not None and has_secrets(call.enclosing))


def shown_arguments(call: Call) -> Any:
    """The arguments without their secrets; None when it is not known where the secrets are."""
    tool = call.prepared
    if tool is None or call.hides_arguments:
        return None
    if tool.redactor is None:
        return scrub(call, _read(call.arguments))
    is_misshapen = call.failure is not None and call.failure.kind == "invalid_arguments"
    return None if is_misshapen else scrub(call, tool.redactor.redact_json(call.arguments))


def scrub(call: Call, data: Any) -> Any:
    """`data` (JSON) without the secrets that this call, and those that it is part of, were given as
    arguments or as answers of people.
    """
    return _scrubber(call).scrub(data) if has_secrets(call) else data


def _scrubber(call: Call) -> Scrubber:
    """Made once; only an edit changes the arguments after that, and only answers add secrets."""
    known = call.scrubber
    answers = _secret_answers(call)
    if known is None or known[0] is not call.arguments or known[1] != len(answers):
        from toolcrib.tools.redaction import Scrubber

        secrets: list[Any] = list(answers)
        names: frozenset[str] = frozenset()
        part: Call | None = call
        while part is not None:
            redactor = part.prepared.redactor if part.prepared else None
            if redactor is not None:
                # As they were sent, too: validation may have changed a secret.
                for arguments in {part.arguments, part.submitted}:
                    secrets += redactor.secrets_json(arguments)
                names |= redactor.names
            if part.hides_arguments:
                # Which of them are the secrets is not known any more.
                secrets.append(_read(part.arguments))
            part = part.enclosing
        known = call.scrubber = (call.arguments, len(answers), Scrubber(secrets, names))
    return known[2]


def _secret_answers(call: Call) -> list[Any]:
    secrets: list[Any] = []
    part: Call | None = call
    while part is not None:
        if part.person is not None:
            secrets += part.person.secrets
        part = part.enclosing
    return secrets


def shown_value(call: Call) -> Any:
    """The value as JSON, without secrets."""
    value = call.text_value if call.value_json is None else from_json(call.value_json)
    return scrub(call, value)


def shown_failure(call: Call, failure: Failure) -> Failure:
    """`failure` without secrets, in text that can be sent."""
    faults = tuple(
        replace(
            fault,
            message=_shown_text(call, fault.message),
            pointer=_shown_text(call, fault.pointer),
        )
        for fault in failure.faults
    )
    return replace(
        failure,
        message=_shown_text(call, failure.message),
        faults=faults,
        error_type=failure.error_type and _shown_text(call, failure.error_type),
    )


def _shown_text(call: Call, text: str) -> str:
    return encodable(scrub(call, text))


def loggable(call: Call, error: BaseException) -> BaseException | None:
    """The exception for a log; None where its text or its traceback might quote a secret."""
    return None if has_secrets(call) else error


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
