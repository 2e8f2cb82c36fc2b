"""Steps of an interaction as parts of a response.

What a text of an interaction cites. Places are given in bytes, and wanted in characters.

How an interaction ended, and what it took.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryContent,
    Citation,
    CitationSource,
    ContentCitationAnchor,
    DocumentCitationSource,
    FilePart,
    FinishReason,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    WebCitationSource,
)
from pydantic_ai.usage import RequestUsage

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.json_fields import mapping_of, mappings_of, maybe_int, maybe_text, text_of
from toolcrib.adapters.pydantic_ai.parts import UNREAD


def citations_of(text: str, annotations: Sequence[RawItem]) -> list[Citation]:
    """The citations of a text; those whose place is not one of the text's come without it."""
    return list(_citations(text.encode("utf-8", "surrogatepass"), annotations))


def _citations(text: bytes, annotations: Sequence[RawItem]) -> Iterator[Citation]:
    for note in annotations:
        source = _source(note)
        if source is not None:
            yield Citation([source], anchor=_anchor(text, note))


def _anchor(text: bytes, note: RawItem) -> ContentCitationAnchor | None:
    # A place at the very start is left out, as zeros are.
    start, end = maybe_int(note, "start_index") or 0, maybe_int(note, "end_index")
    if end is None or not 0 <= start < end <= len(text):
        return None
    try:
        # A place within a character is none: the provider counts something else there.
        before, cited = text[:start].decode(), text[start:end].decode()
    except UnicodeDecodeError:
        return None
    return ContentCitationAnchor(start=len(before), end=len(before) + len(cited))


def _source(note: RawItem) -> CitationSource | None:
    url = text_of(note, "url")
    if url:
        return WebCitationSource(url, title=maybe_text(note, "title") or maybe_text(note, "name"))
    title = text_of(note, "file_name") or text_of(note, "title") or text_of(note, "source")
    document = text_of(note, "document_uri") or text_of(note, "media_id")
    if not title and not document:
        return None
    return DocumentCitationSource(document_id=document or None, title=title or None)


STEP: Final = "step"
"""Where a part's details keep what its step says besides."""
_NATIVE: Final[Mapping[str, str]] = {
    "code_execution": "code_execution",
    "file_search": "file_search",
    "google_search": "web_search",
    "mcp_server_tool": "mcp_server",
    "url_context": "web_fetch",
}
"""pydantic-ai's names of what Google runs; whatever else it runs keeps its own."""
_CALL, _RESULT = "_call", "_result"


class Reading:
    """Reads the steps of one response. What is no part of it is left over as `unread`."""

    def __init__(self, provider: str) -> None:
        self.unread: list[dict[str, Any]] = []
        self._provider = provider
        self._names: dict[str, str] = {}

    def parts(self, step: dict[str, Any]) -> Iterator[ModelResponsePart]:
        """The parts of a step, in order."""
        kind = text_of(step, "type")
        match kind:
            case "thought":
                yield self._thought(step)
            case "model_output":
                yield from filter(None, map(self.content, mappings_of(step, "content")))
            case "function_call":
                yield self._function_call(step)
            case "function_result" | "user_input":
                self.unread.append(step)
            case _ if kind.endswith(_CALL):
                yield self._call(step, kind.removesuffix(_CALL))
            case _ if kind.endswith(_RESULT):
                yield from self._result(step, kind.removesuffix(_RESULT))
            case _:
                self.unread.append(step)

    def _thought(self, step: RawItem) -> ThinkingPart:
        texts = [text_of(each, "text") for each in mappings_of(step, "summary")]
        signature = maybe_text(step, "signature")
        text = "\n".join(filter(None, texts))
        return ThinkingPart(text, signature=signature, provider_name=self._provider)

    def content(self, content: dict[str, Any]) -> TextPart | FilePart | None:
        """A piece of what the model puts out; None when it is left over."""
        if content.get("type") == "text":
            return self._text(text_of(content, "text"), mappings_of(content, "annotations"))
        file = file_of(content)
        if file is not None:
            return FilePart(file, provider_name=self._provider)
        self.unread.append(content)
        return None

    def _text(self, text: str, annotations: list[dict[str, Any]]) -> TextPart:
        if not annotations:
            return TextPart(text)
        return TextPart(
            text,
            citations=citations_of(text, annotations) or None,
            provider_name=self._provider,
            provider_details={"annotations": annotations},
        )

    def _function_call(self, step: RawItem) -> ToolCallPart:
        rest = _without(step, "id", "name", "arguments")
        return ToolCallPart(
            text_of(step, "name"),
            mapping_of(step, "arguments"),
            text_of(step, "id"),
            provider_name=self._provider,
            provider_details={STEP: rest},
        )

    def _call(self, step: RawItem, stem: str) -> NativeToolCallPart:
        name, arguments = _NATIVE.get(stem, stem), mapping_of(step, "arguments")
        if stem == "mcp_server_tool":
            name = f"{name}:{text_of(step, 'server_name')}"
            asked = {"tool_name": text_of(step, "name"), "tool_args": arguments}
            arguments = {"action": "call_tool", **asked}
        key = text_of(step, "id")
        self._names[key] = name
        return NativeToolCallPart(
            name,
            arguments,
            key,
            provider_name=self._provider,
            provider_details={STEP: _without(step, "id", "arguments")},
        )

    def _result(self, step: RawItem, stem: str) -> Iterator[ModelResponsePart]:
        key, content = text_of(step, "call_id"), _content(step, stem)
        # What is told as it came need not be kept beside it.
        said = ("call_id", "result") if content is step.get("result") else ("call_id",)
        yield NativeToolReturnPart(
            self._names.get(key) or _NATIVE.get(stem, stem),
            content,
            key,
            provider_name=self._provider,
            provider_details={STEP: _without(step, *said)},
        )
        for each in mappings_of(step, "result"):
            file = file_of(each)
            if file is not None:
                yield FilePart(file, id=key, provider_name=self._provider)


def file_of(content: RawItem) -> BinaryContent | None:
    """A file that comes with the answer; None when it is none, or lies elsewhere."""
    data, media_type = text_of(content, "data"), text_of(content, "mime_type")
    with suppress(ValueError):
        if data and media_type:
            file = BinaryContent(b64decode(data), media_type=media_type)
            return BinaryContent.narrow_type(file)
    return None


def _content(step: RawItem, stem: str) -> Any:
    """What came of a call, in the shape that pydantic-ai's own model of Gemini gives."""
    result = step.get("result")
    is_error = step.get("is_error") is True
    if stem == "code_execution":
        outcome = "OUTCOME_FAILED" if is_error else "OUTCOME_OK"
        return {"outcome": outcome, "output": _said(result)}
    if stem == "mcp_server_tool":
        return {"is_error": is_error, "content": _said(result)}
    if stem == "url_context":
        return [_page(each) for each in mappings_of(step, "result")]
    return {"type": "result_error", "result": result} if is_error else result


def _page(told: RawItem) -> dict[str, Any]:
    status = f"URL_RETRIEVAL_STATUS_{text_of(told, 'status').upper() or 'UNSPECIFIED'}"
    return {"retrieved_url": text_of(told, "url"), "url_retrieval_status": status}


def _said(result: Any) -> str:
    """The text of a result: itself, or that of its parts."""
    if isinstance(result, str):
        return result
    texts = [text_of(each, "text") for each in mappings_of({"result": result}, "result")]
    return "\n".join(filter(None, texts))


def _without(step: RawItem, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in step.items() if key not in keys}


_REASONS: Final[Mapping[str, FinishReason]] = {
    "budget_exceeded": "length",
    "cancelled": "error",
    "completed": "stop",
    "failed": "error",
    "incomplete": "length",
    "requires_action": "tool_call",
    "requires_continuation": "length",
}


def reason_of(interaction: RawItem) -> FinishReason | None:
    """Why the model stopped; None when it did not say, or in a word that is not known."""
    return _REASONS.get(text_of(interaction, "status"))


def details_of(interaction: RawItem, unread: list[dict[str, Any]]) -> dict[str, Any]:
    """What goes with the response, besides its parts."""
    error = mapping_of(interaction, "error")
    told: dict[str, Any] = {
        "finish_reason": text_of(interaction, "status") or None,
        "error": error or None,
        "service_tier": text_of(interaction, "service_tier") or None,
        UNREAD: unread or None,
    }
    return {key: value for key, value in told.items() if value is not None}


def usage_of(interaction: RawItem) -> RequestUsage:
    """The tokens. Those that tools brought in are input, thoughts are output."""
    told = mapping_of(interaction, "usage")

    def count(name: str) -> int:
        return maybe_int(told, f"total_{name}_tokens") or 0

    thoughts = count("thought")
    return RequestUsage(
        input_tokens=count("input") + count("tool_use"),
        output_tokens=count("output") + thoughts,
        cache_read_tokens=count("cached"),
        details={"reasoning_tokens": thoughts} if thoughts else {},
    )
