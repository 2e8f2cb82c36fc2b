"""JSON-RPC 2.0 messages, parsed strictly and written on one line, for every transport."""

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
    """A request, which has to be answered."""

    id: RequestId
    method: str
    params: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification, which is not answered."""

    method: str
    params: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Response:
    """The client's response to a request of the runtime. With `error`, it failed."""

    id: object
    result: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Malformed:
    """A frame that is not a valid message, and the error that its sender gets."""

    code: int
    message: str
    id: RequestId | None = None


Message: TypeAlias = Request | Notification | Response | Malformed


def read_message(frame: str | bytes, max_bytes: int) -> Message:
    """Parse a frame. Never raises: an invalid frame is `Malformed`."""
    if len(frame) > max_bytes:
        return Malformed(
            REFUSALS["too_large"].code, f"the message has more than {max_bytes} bytes, the maximum"
        )
    try:
        message = from_json(frame, allow_inf_nan=False)
    except (ValueError, RecursionError):
        return Malformed(PARSE_ERROR, "the message is not JSON in UTF-8")
    if isinstance(message, list):
        return Malformed(
            INVALID_REQUEST, "JSON-RPC batches are not supported; send each message by itself"
        )
    if not isinstance(message, dict):
        return Malformed(INVALID_REQUEST, "a message must be a JSON object")
    return _read_object(cast("dict[str, Any]", message))


def _read_object(message: dict[str, Any]) -> Message:
    # A response is never answered, or two sides could send each other errors for ever.
    if "method" not in message and ("result" in message or "error" in message):
        return _read_response(message)
    has_id, raw_id = "id" in message, message.get("id")
    request_id = raw_id if is_request_id(raw_id) else None
    fault = _fault(message, has_id and request_id is None)
    if fault is not None:
        return Malformed(INVALID_REQUEST, fault, request_id)
    method, params = message["method"], message.get("params")
    if isinstance(params, list):
        return Malformed(REFUSALS["invalid"].code, "params must be a JSON object", request_id)
    if request_id is None:
        return Notification(method, params)
    return Request(request_id, method, params)


def _fault(message: dict[str, Any], is_id_wrong: bool) -> str | None:
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    if is_id_wrong:
        return f"id must be an integer or a string of at most {MAX_ID_CHARS} characters"
    if not isinstance(message.get("method"), str):
        return "method must be a string"
    if not isinstance(message.get("params", {}), dict | list | None):
        return "params must be a JSON object"
    return None


def _read_response(message: dict[str, Any]) -> Response:
    error = message.get("error")
    if error is None:
        return Response(message.get("id"), message.get("result"))
    text = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else None
    return Response(
        message.get("id"), error=text if isinstance(text, str) else "the client gave no reason"
    )


def is_request_id(value: object) -> bool:
    """Whether a value is a valid request id. True, 1.0 and null are not."""
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool)


def result_frame(request_id: RequestId | None, result: object) -> str:
    """A result frame. Raises ValueError when the result is not JSON."""
    return _frame({"id": request_id, "result": result})


def error_frame(
    request_id: RequestId | None, code: int, message: str, data: Mapping[str, Any] | None = None
) -> str:
    """An error frame."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return _frame({"id": request_id, "error": error})


def refusal_frame(request_id: RequestId | None, refused: Refused) -> str:
    """A refusal as an error frame, with its kind and facts as data."""
    data = {"kind": refused.kind, "facts": refused.facts}
    return error_frame(request_id, REFUSALS[refused.kind].code, refused.message, data)


def request_frame(request_id: RequestId, method: str, params: object) -> str:
    """A request frame."""
    return _frame({"id": request_id, "method": method, "params": params})


def notification_frame(method: str, params: object) -> str:
    """A notification frame."""
    return _frame({"method": method, "params": params})


def _frame(members: dict[str, Any]) -> str:
    message = {"jsonrpc": "2.0", **members}
    return to_json(message, inf_nan_mode="strings", fallback=str).decode()
