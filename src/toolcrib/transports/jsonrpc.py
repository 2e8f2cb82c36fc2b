"""JSON-RPC 2.0 messages: read strictly, written on one line, whatever carries them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic_core import from_json, to_json

from toolcrib.serving.refusals import REFUSALS

if TYPE_CHECKING:
    from toolcrib.errors import Refused

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
CANCELLED: Final = -32800

MAX_ID_CHARS: Final = 255

RequestId: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class Request:
    """Something that is asked and must be answered."""

    id: RequestId
    method: str
    params: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Notification:
    """Something that is told, without an answer."""

    method: str
    params: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Response:
    """What the other side answers to a request of ours. With `error`, it failed."""

    id: object
    result: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Malformed:
    """A frame that is no message, and what its sender is told."""

    code: int
    message: str
    id: RequestId | None = None


Message: TypeAlias = Request | Notification | Response | Malformed


def read_message(frame: str | bytes, most_bytes: int) -> Message:
    """The message of a frame. Whatever the frame holds, this does not raise."""
    if len(frame) > most_bytes:
        return Malformed(
            REFUSALS["too_large"].code, f"a message may have {most_bytes} bytes, not more"
        )
    try:
        told = from_json(frame, allow_inf_nan=False)
    except (ValueError, RecursionError):
        return Malformed(PARSE_ERROR, "the message is not JSON in UTF-8")
    if isinstance(told, list):
        return Malformed(INVALID_REQUEST, "batches are not taken; send each message by itself")
    if not isinstance(told, dict):
        return Malformed(INVALID_REQUEST, "a message is a JSON object")
    return _read_object(cast("dict[str, Any]", told))


def _read_object(told: dict[str, Any]) -> Message:
    # What looks like an answer is never answered: two sides could complain to each other forever.
    if "method" not in told and ("result" in told or "error" in told):
        return _read_response(told)
    has_id, given = "id" in told, told.get("id")
    answered = given if is_request_id(given) else None
    fault = _fault(told, has_id and answered is None)
    if fault is not None:
        return Malformed(INVALID_REQUEST, fault, answered)
    method, params = told["method"], told.get("params")
    if isinstance(params, list):
        return Malformed(REFUSALS["invalid"].code, "params is a JSON object", answered)
    if answered is None:
        return Notification(method, params)
    return Request(answered, method, params)


def _fault(told: dict[str, Any], is_id_wrong: bool) -> str | None:
    if told.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if is_id_wrong:
        return f"id is an integer or a text of at most {MAX_ID_CHARS} characters"
    if not isinstance(told.get("method"), str):
        return "method is a text"
    if not isinstance(told.get("params", {}), dict | list | None):
        return "params is a JSON object"
    return None


def _read_response(told: dict[str, Any]) -> Response:
    error = told.get("error")
    if error is None:
        return Response(told.get("id"), told.get("result"))
    message = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else None
    return Response(
        told.get("id"), error=message if isinstance(message, str) else "it does not say why"
    )


def is_request_id(given: object) -> bool:
    """Whether a request may be called so. True and 1.0 are not integers, and null names nothing."""
    if isinstance(given, str):
        return len(given) <= MAX_ID_CHARS
    return isinstance(given, int) and not isinstance(given, bool)


def result_frame(request_id: RequestId | None, result: object) -> str:
    """An answer. Raises ValueError when the result is no JSON."""
    return _frame({"id": request_id, "result": result})


def error_frame(
    request_id: RequestId | None, code: int, message: str, data: Mapping[str, Any] | None = None
) -> str:
    """An answer that says no."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return _frame({"id": request_id, "error": error})


def refusal_frame(request_id: RequestId | None, refused: Refused) -> str:
    """A refusal, with its kind and what a program may want besides."""
    data = {"kind": refused.kind, "facts": refused.facts}
    return error_frame(request_id, REFUSALS[refused.kind].code, refused.message, data)


def request_frame(request_id: RequestId, method: str, params: object) -> str:
    """Something to ask of the other side."""
    return _frame({"id": request_id, "method": method, "params": params})


def notification_frame(method: str, params: object) -> str:
    """Something to tell the other side."""
    return _frame({"method": method, "params": params})


def _frame(members: dict[str, Any]) -> str:
    message = {"jsonrpc": "2.0", **members}
    return to_json(message, inf_nan_mode="strings", fallback=str).decode()
