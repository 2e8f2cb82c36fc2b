"""Compaction of conversations, and reading compacted ones.

No model takes part: messages of the user stay whole, and all other text is cut to its beginning.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as checked

from toolcrib.embedded.backend import BackendCall, BackendCallResult, BackendMessage
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.responses.request import Item, items_of, read_body, usage_resource

if TYPE_CHECKING:
    from toolcrib.embedded.backend import BackendInput
    from toolcrib.embedded.responses.conversation import RequestHistory

MAX_SAID: Final = 2_000
MAX_ANSWERED: Final = 500
_ABOUT: Final = "What was said and done before, in order and shortened:"
_FORM: Final = "toolcrib-1"


@checked(frozen=True, config=ConfigDict(extra="ignore", strict=True))
class CompactionRequest:
    """The parameters of a compaction."""

    model: str
    input: str | list[Item] = field(default_factory=list[Item])
    previous_response_id: str | None = None
    instructions: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None
    client_metadata: dict[str, Any] | None = None

    @property
    def items(self) -> list[Item]:
        """The input as items."""
        return items_of(self.input)


def read_compaction_request(body: object) -> CompactionRequest:
    """Validate a request. Raises `ApiFault`."""
    request = read_body(_adapter(), body)
    if not request.items and request.previous_response_id is None:
        raise invalid("One of 'input' or 'previous_response_id' must be given.", "input")
    return request


@cache
def _adapter() -> TypeAdapter[CompactionRequest]:
    return TypeAdapter(CompactionRequest)


def compacted(history: RequestHistory, now: float) -> dict[str, Any]:
    """The messages of the user, and one item with the rest of the conversation."""
    conversation = history.conversation
    users = [item for item in conversation.items if item.get("role") == "user"]
    item = {
        "id": new_id("cmp"),
        "type": "compaction",
        "encrypted_content": _sealed("\n".join(_lines(conversation.history))),
    }
    return {
        "id": new_id("resp"),
        "object": "response.compaction",
        "created_at": int(now),
        "output": [*users, item],
        "usage": usage_resource(0, 0),
    }


def read_compaction(item: Mapping[str, Any], param: str) -> BackendMessage:
    """Read a compaction item into a message. Raises `ApiFault` for content of another provider."""
    try:
        read = json.loads(base64.b64decode(str(item.get("encrypted_content")), validate=True))
    except (ValueError, RecursionError):
        read = None
    content = cast(dict[str, Any], read) if isinstance(read, dict) else {}
    if content.get("form") != _FORM or not isinstance(content.get("text"), str):
        raise invalid("This compaction was not made here.", f"{param}.encrypted_content")
    return BackendMessage("developer", f"{_ABOUT}\n{content['text']}")


def _sealed(text: str) -> str:
    """Encode the content that clients send back. It holds nothing that they have not seen."""
    return base64.b64encode(json.dumps({"form": _FORM, "text": text}).encode()).decode()


def _lines(turns: Iterable[BackendInput]) -> Iterable[str]:
    for turn in turns:
        match turn:
            case BackendMessage(role="developer") if turn.text.startswith(_ABOUT):
                yield turn.text.removeprefix(_ABOUT).strip()
            case BackendMessage():
                yield f"{turn.role}: {_cut(turn.text, MAX_SAID)}"
            case BackendCall():
                yield f"called {turn.name}: {_cut(turn.arguments, MAX_ANSWERED)}"
            case BackendCallResult():
                yield f"{turn.name} answered: {_cut(turn.text, MAX_ANSWERED)}"
            case _:
                assert_never(turn)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [{len(text) - most} more characters]"
