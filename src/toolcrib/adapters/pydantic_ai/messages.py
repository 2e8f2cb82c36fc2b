"""Items as the messages that pydantic-ai sends, each made once however long the history grows."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from toolcrib.adapters.json_fields import mappings_of, maybe_text, text_of
from toolcrib.adapters.pydantic_ai.parts import NATIVE_CALL, RESPONSE, response_of
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelResponse,
        UploadedFile,
        UploadedFileProviderName,
        UserContent,
    )

    from toolcrib.adapters.codec import RawItem

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
        self._live: tuple[RawItem, ModelResponse] | None = None

    def told(self, items: Sequence[RawItem]) -> list[ModelMessage]:
        """All messages, after taking in the items that were added since the last time. Raises
        `UsageError` for a file that the provider could not find.
        """
        new = items[self._read :]
        self._read = len(items)
        at = 0
        while at < len(new):
            start = at
            is_theirs = new[at].get("type") == RESPONSE
            at += 1
            while at < len(new) and _belongs(new[at], is_theirs=is_theirs):
                at += 1
            if is_theirs:
                self._hear(new[start:at])
            else:
                self._say(new[start:at])
        return self._all

    def keep(self, header: RawItem, response: ModelResponse) -> None:
        """Remember the response that an item stands for: it need not be made again from items."""
        self._live = header, response

    def _hear(self, items: Sequence[RawItem]) -> None:
        self.called |= {text_of(item, "id") for item in items if item.get("type") == NATIVE_CALL}
        is_live = self._live is not None and self._live[0] is items[0]
        response = self._live[1] if self._live and is_live else response_of(items)
        last = self._all[-1] if self._all else None
        if last is not None and last.kind == "response":
            # The provider paused and went on: to the provider that is one answer.
            response = _joined(last, response)
            self._all.pop()
        self._all.append(response)

    def _say(self, items: Sequence[RawItem]) -> None:
        from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart

        parts: list[Any] = []
        for item in items:
            if item.get("type") == "function_call_output":
                parts.append(
                    ToolReturnPart(
                        text_of(item, "name"),
                        text_of(item, "output"),
                        text_of(item, "call_id"),
                        outcome=_outcome(item),
                    )
                )
            else:
                content = [self._content(part) for part in mappings_of(item, "content")]
                parts.append(UserPromptPart(content))
        self._all.append(ModelRequest(parts))

    def _content(self, part: RawItem) -> UserContent:
        from pydantic_ai.messages import BinaryContent

        file_id = maybe_text(part, "file_id")
        if file_id is not None:
            return self._uploaded(file_id)
        url = maybe_text(part, "image_url") or maybe_text(part, "file_data")
        if url is None:
            return text_of(part, "text")
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        if self._provider in _PLAIN_TEXT_ONLY and media_type.startswith("text/"):
            media_type = "text/plain"
        return BinaryContent(
            base64.b64decode(data), media_type=media_type, identifier=maybe_text(part, "filename")
        )

    def _uploaded(self, file_id: str) -> UploadedFile:
        from pydantic import ValidationError
        from pydantic_ai.messages import UploadedFile

        provider = cast("UploadedFileProviderName", self._provider)
        try:
            return UploadedFile(
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


def _belongs(item: RawItem, *, is_theirs: bool) -> bool:
    """Whether an item goes on with the message before it."""
    kind = item.get("type")
    is_ours = kind == "function_call_output" or item.get("role") == "user"
    return kind != RESPONSE and is_ours is not is_theirs


def _outcome(item: RawItem) -> Outcome:
    failure = maybe_text(item, "failure")
    if failure is None:
        return "success"
    return "denied" if failure in _DENIED else "failed"
