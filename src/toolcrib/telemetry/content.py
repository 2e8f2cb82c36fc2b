"""What was said: arguments, results and texts. They are left out unless somebody asks for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticSerializationError

from toolcrib.session.encoding import encode_facts
from toolcrib.telemetry.conventions import TOOL_CALL_ARGUMENTS, TOOL_CALL_RESULT, Attributes

if TYPE_CHECKING:
    from toolcrib.session.events import ToolInvoked

CAPTURE_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

# The old spelling is a truth value; the new one says where content may go, and ours goes to spans.
_WANTED: Final = frozenset({"true", "1", "span_only", "span_and_event"})


def is_content_wanted(asked: bool | None) -> bool:
    """What the program says; where it says nothing, what the environment says."""
    if asked is not None:
        return asked
    return os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in _WANTED


def call_content(event: ToolInvoked) -> Attributes:
    """The redacted arguments of a call and what the model saw of its result."""
    content: Attributes = {}
    arguments = None if event.params is None else _as_json(event.params)
    if arguments is not None:
        content[TOOL_CALL_ARGUMENTS] = arguments
    if event.success:
        content[TOOL_CALL_RESULT] = event.message
    return content


def _as_json(value: Any) -> str | None:
    try:
        return encode_facts(value).decode()
    except PydanticSerializationError:
        return None


def as_messages(role: str, text: str) -> str:
    """One message in the shape that the conventions give to messages."""
    return encode_facts([{"role": role, "parts": [{"type": "text", "content": text}]}]).decode()
