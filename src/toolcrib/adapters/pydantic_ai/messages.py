"""`MessageHistory`: the items of a turn as pydantic-ai messages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from toolcrib.adapters.items import (
    InlineFile,
    Item,
    PromptContent,
    ReplyItem,
    TextContent,
    ToolOutputItem,
    UploadedFile,
    UserMessage,
    text_of,
)
from toolcrib.adapters.pydantic_ai.parts import NATIVE_CALL, RESPONSE, response_of
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelResponse,
        UploadedFileProviderName,
        UserContent,
    )


Outcome = Literal["success", "failed", "denied"]
_DENIED: Final = frozenset({"denied", "expired", "not_permitted"})
# These providers take text files only as text/plain, whatever their format.
_PLAIN_TEXT_ONLY: Final = frozenset({"anthropic"})


class MessageHistory:
    """The messages of one turn. It follows a growing list of items and reads each item once."""

    def __init__(self, provider: str) -> None:
        """`provider` is the model's name for it."""
        self.hosted_call_ids: set[str] = set()
        """The ids of all hosted calls."""
        self._provider = provider
        self._read = 0
        self._all: list[ModelMessage] = []
        self._live: tuple[ReplyItem, ModelResponse] | None = None

    def extend(self, items: Sequence[Item]) -> list[ModelMessage]:
        """All messages, after reading the items that were added since the last call.

        Raises `UsageError` for a file that cannot be attached by its id.
        """
        new = items[self._read :]
        self._read = len(items)
        reply: list[ReplyItem] = []
        request: list[UserMessage | ToolOutputItem] = []
        for item in new:
            if isinstance(item, UserMessage | ToolOutputItem):
                self._add_reply(reply)
                request.append(item)
                continue
            self._add_request(request)
            if item.raw.get("type") == RESPONSE:
                self._add_reply(reply)
            reply.append(item)
        self._add_reply(reply)
        self._add_request(request)
        return self._all

    def keep(self, header: ReplyItem, response: ModelResponse) -> None:
        """Keep the response that an item stands for, so that it is not rebuilt from items."""
        self._live = header, response

    def _add_reply(self, items: list[ReplyItem]) -> None:
        """Add the items of one response, and empty the list."""
        if not items:
            return
        raws = [item.raw for item in items]
        self.hosted_call_ids |= {
            text_of(raw, "id") for raw in raws if raw.get("type") == NATIVE_CALL
        }
        is_live = self._live is not None and self._live[0] is items[0]
        response = self._live[1] if self._live and is_live else response_of(raws)
        last = self._all[-1] if self._all else None
        if last is not None and last.kind == "response":
            # The provider paused and continued: for the provider that is one message.
            response = _joined(last, response)
            self._all.pop()
        self._all.append(response)
        items.clear()

    def _add_request(self, items: list[UserMessage | ToolOutputItem]) -> None:
        """Add the items of one request, and empty the list."""
        from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart

        if not items:
            return
        parts: list[Any] = []
        for item in items:
            match item:
                case ToolOutputItem(call_id=call_id, tool_name=name, text=text, failure=failure):
                    part = ToolReturnPart(name, text, call_id, outcome=_outcome(failure))
                case UserMessage(content=content):
                    part = UserPromptPart([self._content(part) for part in content])
            parts.append(part)
        self._all.append(ModelRequest(parts))
        items.clear()

    def _content(self, content: PromptContent) -> UserContent:
        from pydantic_ai.messages import BinaryContent

        match content:
            case TextContent(text=text):
                return text
            case UploadedFile(file_id=file_id, media_type=media_type):
                return self._uploaded(file_id, media_type)
            case InlineFile(name=name, media_type=media_type, data=data):
                if self._provider in _PLAIN_TEXT_ONLY and media_type.startswith("text/"):
                    media_type = "text/plain"
                identifier = None if content.is_image else name
                return BinaryContent(
                    base64.b64decode(data), media_type=media_type, identifier=identifier
                )

    def _uploaded(self, file_id: str, media_type: str | None) -> UserContent:
        from pydantic import ValidationError
        from pydantic_ai.messages import UploadedFile as ProviderFile

        provider = cast("UploadedFileProviderName", self._provider)
        try:
            return ProviderFile(file_id, provider_name=provider, media_type=media_type)
        except ValidationError:
            raise UsageError(
                f"file {file_id!r} cannot be attached by its id: pydantic-ai cannot refer to files "
                f"of {self._provider}; attach the file itself"
            ) from None


def _joined(before: ModelResponse, response: ModelResponse) -> ModelResponse:
    """Two pieces of one message, with the details of both, such as the container of the first."""
    return replace(
        response,
        parts=[*before.parts, *response.parts],
        provider_details=_both(before.provider_details, response.provider_details),
        metadata=_both(before.metadata, response.metadata),
    )


def _both(before: dict[str, Any] | None, later: dict[str, Any] | None) -> dict[str, Any] | None:
    return {**(before or {}), **(later or {})} or None


def _outcome(failure: str | None) -> Outcome:
    if failure is None:
        return "success"
    return "denied" if failure in _DENIED else "failed"
