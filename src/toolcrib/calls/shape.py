"""Stage nine: what the model sees of a result, and what is recorded of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolcrib.calls.redaction import (
    encodable,
    has_secrets,
    loggable,
    scrub,
    shown_arguments,
    shown_failure,
    shown_value,
)
from toolcrib.errors import (
    NobodyToAsk,
    OutputHookFailed,
    QuestionDeclined,
    QuestionExpired,
    QuestionUnanswered,
    ToolTimeout,
)
from toolcrib.failures import Failure, FailureKind
from toolcrib.ledger.encoding import (
    DEEPEST,
    MOST_DIGITS,
    encode_value,
    is_readable,
    plain_facts,
    rendered,
)
from toolcrib.tools.result import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolcrib.calls.call import Call
    from toolcrib.calls.tool_table import ToolTable
    from toolcrib.tools.result import ToolRenderableResult

logger = logging.getLogger(__name__)

READER = "read_artifact"
"""The tool of `toolcrib.tools.artifacts`, by its name: nobody should have to import it."""

_UNREADABLE = (
    f"it cannot be read back: it is nested more than {DEEPEST} deep, or holds a number of more "
    f"than {MOST_DIGITS} digits"
)


def shape(call: Call, default_max_chars: int, table: ToolTable) -> None:
    """Render the call's result; what is too long for the model is cut and kept whole."""
    if call.error is not None:
        call.failure = failure_of(call, call.error)
    else:
        _render(call)
        if call.tool.check_output is not None and call.failure is None:
            _check_output(call, call.tool.check_output)
    if call.failure is not None or has_secrets(call):
        _hide_secrets(call)
    if call.was_edited:
        call.is_plain_text = False
        call.text = _with_edit(call)
    limit = call.tool.tool.max_result_chars or default_max_chars
    if len(call.text) > limit:
        call.is_plain_text = False
        call.whole_text = call.text
        call.artifact_id = f"artifact_{call.call_id}"
        # A tool that the model does not have must not be named to it.
        reader = READER if table.get(READER) is not None else None
        call.text = cut(call.text, limit, call.tool.tool.cut, call.artifact_id, reader)


def _render(call: Call) -> None:
    value = call.value
    if type(value) is str:
        _render_text(call, value)
        return
    message = ""
    if isinstance(value, ToolResult):
        result = cast("ToolResult[Any]", value)
        call.metadata = result.metadata
        if result.metadata:
            # A copy: the record is made later, and the metadata is the application's to change.
            call.kept_metadata = plain_facts(dict(result.metadata))
        call.value = value = result.value
        message = result.message
        if not result.success:
            call.failure = Failure("tool_error", message or f"`{call.name}` failed.")
    try:
        if hasattr(value, "__next__"):
            # It can be read only once, and the record, the model and the program all want it.
            call.value = value = list(cast("Iterator[Any]", value))
        call.value_json = encoded = encode_value(value)
        if not is_readable(encoded):
            raise PydanticSerializationError(_UNREADABLE)
        call.text = _checked(message) if message else _text(value, call, encoded)
    except PydanticSerializationError as error:
        _refuse(call, value, str(error))
    except Exception as error:
        logger.warning(
            "rendering the result of %s failed", call.name, exc_info=loggable(call, error)
        )
        _refuse(call, value, f"rendering it raised {type(error).__name__}")


def _render_text(call: Call, value: str) -> None:
    try:
        # The check costs nothing where there is nothing but ASCII.
        if not value.isascii():
            value.encode()
    except UnicodeEncodeError as error:
        _refuse(call, value, str(error))
        return
    call.text = call.text_value = value
    call.is_plain_text = True


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the text for the model is {_type_name(text)}, not str")
    return encodable(text)


def _hide_secrets(call: Call) -> None:
    """Take the secrets of the arguments out of what the model sees: a hook may have put them
    there, unknown to the model. Before anything is cut, so that no piece of one is left.
    """
    if call.failure is not None:
        call.failure = shown_failure(call, call.failure)
        call.text = call.failure.message
    elif has_secrets(call):
        # In the text of a JSON value, a secret with a quote in it would not be found.
        is_plain = call.is_plain_text
        call.text = rendered(shown_value(call)) if is_plain else scrub(call, call.text)


def _text(value: Any, call: Call, encoded: bytes) -> str:
    if call.failure is not None:
        return _checked(call.failure.message)
    # Not isinstance against the protocol: that costs more than the rest of the call.
    if not isinstance(value, str) and hasattr(value, "render"):
        return _checked(cast("ToolRenderableResult", value).render())
    call.is_plain_text = True
    # What JSON has only as text, like a date or an enum, is read as text and not in quotes.
    return from_json(encoded) if encoded.startswith(b'"') else encoded.decode()


def _check_output(call: Call, check: Callable[[Any], None]) -> None:
    """Let nothing out that is not what the tool promises, whoever made it: a hook may have."""
    try:
        check(call.text_value if call.value_json is None else from_json(call.value_json))
    except ValueError as error:
        from toolcrib.tools.faults import explain

        faults = explain(error, call.tool.tool.output_schema or {})
        lines = [f"- {fault.pointer or '/'}: {fault.message}" for fault in faults]
        message = f"`{call.name}` gave a result that is not what it promises:"
        _withdraw(call, Failure("invalid_result", "\n".join([message, *lines]), faults=faults))


def _refuse(call: Call, value: Any, why: str) -> None:
    message = (
        f"`{call.name}` returned {_type_name(value)}, which cannot be turned into JSON ({why})."
    )
    _withdraw(call, Failure("invalid_result", message, error_type=_type_name(value)))


def _withdraw(call: Call, failure: Failure) -> None:
    call.failure = failure
    call.value = None
    call.value_json = None
    call.text_value = None
    call.is_plain_text = False
    call.text = failure.message


def failure_of(call: Call, error: BaseException) -> Failure:
    """The failure that an exception stands for. The traceback goes to the log, not the model."""
    if isinstance(error, ToolTimeout):
        return Failure("timeout", str(error), still_running=error.still_running)
    if isinstance(error, QuestionUnanswered):
        return Failure(_unanswered_kind(error), str(error), error_type=_type_name(error))
    name = _type_name(error)
    logger.info("call %s of %s failed", call.call_id, call.name, exc_info=loggable(call, error))
    message = _error_text(error)
    if isinstance(error, OutputHookFailed):
        return Failure("hook_error", message, error_type=_type_name(error.__cause__ or error))
    return Failure("tool_error", f"{name}: {message}" if message else name, error_type=name)


def _unanswered_kind(error: QuestionUnanswered) -> FailureKind:
    match error:
        case QuestionDeclined():
            return "denied"
        case QuestionExpired():
            return "expired"
        case NobodyToAsk():
            return "unavailable"
        case _:
            return "cancelled"


def _error_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(it has no readable message)"


def _type_name(value: Any) -> str:
    return type(value).__name__


RAN_WITH = "_ran_with"
"""The key of a result that holds the arguments that a person put in place of the model's."""


def _with_edit(call: Call) -> str:
    """The result with the arguments that ran. The model must know them, or it repeats the call
    that it thinks was ignored. A JSON object stays one: programs read it, too.
    """
    ran = shown_arguments(call)
    result: object = from_json(call.text) if call.text.startswith("{") and _is_json(call) else None
    if isinstance(result, dict):
        return to_json({**cast("dict[str, Any]", result), RAN_WITH: ran}).decode()
    note = "The arguments were edited before the call ran. It ran with:"
    return f"{call.text}\n\n[{note} {to_json(ran).decode()}]"


def _is_json(call: Call) -> bool:
    try:
        from_json(call.text)
    except ValueError:
        return False
    return True


def cut(text: str, limit: int, keep: str, artifact_id: str, reader: str | None) -> str:
    """At most `limit` characters of `text`, and a note on what is missing, where it is, and which
    tool reads it, if any does.
    """
    missing = len(text) - limit
    how = f"; the tool {reader} pages through it" if reader else ""
    note = (
        f"[{missing} of {len(text)} characters were cut. "
        f"The whole result is kept as {artifact_id}{how}.]"
    )
    match keep:
        case "tail":
            return f"{note}\n{text[-limit:]}"
        case "middle":
            head = limit // 2
            return f"{text[:head]}\n{note}\n{text[len(text) - (limit - head) :]}"
        case _:
            return f"{text[:limit]}\n{note}"
