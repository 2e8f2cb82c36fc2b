"""Items as the messages that pydantic-ai sends, each made once however long the history grows."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
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
)
from toolcrib.adapters.json_fields import text_of
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
# What is written in a text, such as commas, is for the model to see, not for the provider.
_PLAIN_TEXT_ONLY: Final = frozenset({"anthropic"})


class Messages:
    """The history of one turn: follows a growing list of items, and reads only what is new."""

    def __init__(self, provider: str, media_types: Mapping[str, str] | None = None) -> None:
        """`provider` is what the model calls it; `media_types` are those of its files, by id."""
        self.called: set[str] = set()
        """The ids of all calls that the provider ran."""
        self._provider = provider
        self._media_types = media_types or {}
        self._read = 0
        self._all: list[ModelMessage] = []
        self._live: tuple[ReplyItem, ModelResponse] | None = None

    def told(self, items: Sequence[Item]) -> list[ModelMessage]:
        """All messages, after taking in the items that were added since the last time. Raises
        `UsageError` for a file that the provider could not find.
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
        """Remember the response that an item stands for: it need not be made again from items."""
        self._live = header, response

    def _add_reply(self, items: list[ReplyItem]) -> None:
        """Add the items of one response, and empty the list."""
        if not items:
            return
        raws = [item.raw for item in items]
        self.called |= {text_of(raw, "id") for raw in raws if raw.get("type") == NATIVE_CALL}
        is_live = self._live is not None and self._live[0] is items[0]
        response = self._live[1] if self._live and is_live else response_of(raws)
        last = self._all[-1] if self._all else None
        if last is not None and last.kind == "response":
            # The provider paused and went on: to the provider that is one answer.
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
                    part = UserPromptPart([self._content(each) for each in content])
            parts.append(part)
        self._all.append(ModelRequest(parts))
        items.clear()

    def _content(self, content: PromptContent) -> UserContent:
        from pydantic_ai.messages import BinaryContent

        match content:
            case TextContent(text=text):
                return text
            case UploadedFile(file_id=file_id):
                return self._uploaded(file_id)
            case InlineFile(name=name, media_type=media_type, data=data):
                if self._provider in _PLAIN_TEXT_ONLY and media_type.startswith("text/"):
                    media_type = "text/plain"
                identifier = None if content.is_image else name
                return BinaryContent(
                    base64.b64decode(data), media_type=media_type, identifier=identifier
                )

    def _uploaded(self, file_id: str) -> UserContent:
        from pydantic import ValidationError
        from pydantic_ai.messages import UploadedFile as ProviderFile

        provider = cast("UploadedFileProviderName", self._provider)
        try:
            return ProviderFile(
                file_id, provider_name=provider, media_type=self._media_types.get(file_id)
            )
        except ValidationError:
            raise UsageError(
                f"file {file_id!r} cannot be attached by its id, because {self._provider} keeps no "
                "files that pydantic-ai could name; attach the file itself"
            ) from None


def _joined(before: ModelResponse, response: ModelResponse) -> ModelResponse:
    """Two pieces of one answer. What only the first tells, such as where code runs, still holds."""
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
