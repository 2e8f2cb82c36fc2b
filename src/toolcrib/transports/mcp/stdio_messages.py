"""Messages of MCP as lines, and which requests are not answered yet."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

_CANCELLED: Final = "notifications/cancelled"


MOST_IN_FLIGHT: Final = 1_000
"""How many requests may wait for an answer: a client that asks and does not read is held up."""


class Unreadable(Exception):
    """A line is no message, or one that is not taken; `answer` says so to the client."""

    def __init__(self, code: int, message: str, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        error = ErrorData(code=code, message=message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def read_message(line: bytes, most_bytes: int) -> JSONRPCMessage:
    """The message of a line. Raises `Unreadable`."""
    if len(line) > most_bytes:
        raise Unreadable(INVALID_REQUEST, f"a message has at most {most_bytes} bytes here")
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        is_json = all(each["type"] != "json_invalid" for each in error.errors())
        if is_json:
            text = "the line is not a message of JSON-RPC 2.0"
            raise Unreadable(INVALID_REQUEST, text) from None
        raise Unreadable(PARSE_ERROR, "the line is not JSON") from None


def as_line(message: JSONRPCMessage) -> bytes:
    """A message as it is written."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


class InFlight:
    """The requests of a client that wait for an answer."""

    def __init__(self) -> None:
        self._ids: set[Any] = set()
        self.is_empty = asyncio.Event()
        self.is_empty.set()

    def begin(self, message: JSONRPCMessage) -> None:
        """A message came in. Raises `Unreadable` when there are too many."""
        if isinstance(message, JSONRPCRequest):
            if len(self._ids) >= MOST_IN_FLIGHT:
                text = f"{MOST_IN_FLIGHT} requests wait for their answers, and no more may"
                raise Unreadable(INTERNAL_ERROR, text, message.id)
            self._ids.add(message.id)
            self.is_empty.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            # What is cancelled is never answered.
            self._drop((message.params or {}).get("requestId"))

    def end(self, message: JSONRPCMessage) -> None:
        """A message went out."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._drop(message.id)

    def _drop(self, request_id: object) -> None:
        self._ids.discard(request_id)
        if not self._ids:
            self.is_empty.set()
