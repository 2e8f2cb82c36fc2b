"""The response of an interaction: its steps as parts, its citations, its end and its usage.

The API counts places in a text in bytes; parts count in characters.
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
from toolcrib.adapters.items import mapping_of, mappings_of, maybe_int, maybe_text, text_of
from toolcrib.adapters.pydantic_ai.parts import UNREAD


def citations_of(text: str, annotations: Sequence[RawItem]) -> list[Citation]:
    """The citations of a text; one whose place is outside the text comes without a place."""
    return list(_citations(text.encode("utf-8", "surrogatepass"), annotations))


def _citations(text: bytes, annotations: Sequence[RawItem]) -> Iterator[Citation]:
    for note in annotations:
        source = _source(note)
        if source is not None:
            yield Citation([source], anchor=_anchor(text, note))


def _anchor(text: bytes, note: RawItem) -> ContentCitationAnchor | None:
    # The API leaves zeros out.
    start, end = maybe_int(note, "start_index") or 0, maybe_int(note, "end_index")
    if end is None or not 0 <= start < end <= len(text):
        return None
    try:
        # A place inside a character is not counted in bytes of this text.
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
"""The key of a part's details with the rest of its step."""
_NATIVE: Final[Mapping[str, str]] = {
    "code_execution": "code_execution",
    "file_search": "file_search",
    "google_search": "web_search",
    "mcp_server_tool": "mcp_server",
    "url_context": "web_fetch",
}
"""pydantic-ai's names of Google's tools; others keep their own."""
_CALL, _RESULT = "_call", "_result"


class StepReader:
    """Reads the steps of one response. Steps that are no parts are kept in `unread`."""

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
        texts = [text_of(content, "text") for content in mappings_of(step, "summary")]
        signature = maybe_text(step, "signature")
        text = "\n".join(filter(None, texts))
        return ThinkingPart(text, signature=signature, provider_name=self._provider)

    def content(self, content: dict[str, Any]) -> TextPart | FilePart | None:
        """One content of the model's output as a part; None when it is kept in `unread`."""
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
            call = {"tool_name": text_of(step, "name"), "tool_args": arguments}
            arguments = {"action": "call_tool", **call}
        call_id = text_of(step, "id")
        self._names[call_id] = name
        return NativeToolCallPart(
            name,
            arguments,
            call_id,
            provider_name=self._provider,
            provider_details={STEP: _without(step, "id", "arguments")},
        )

    def _result(self, step: RawItem, stem: str) -> Iterator[ModelResponsePart]:
        call_id, content = text_of(step, "call_id"), _content(step, stem)
        # A result that is the content unchanged is not kept a second time.
        covered = ("call_id", "result") if content is step.get("result") else ("call_id",)
        yield NativeToolReturnPart(
            self._names.get(call_id) or _NATIVE.get(stem, stem),
            content,
            call_id,
            provider_name=self._provider,
            provider_details={STEP: _without(step, *covered)},
        )
        for element in mappings_of(step, "result"):
            file = file_of(element)
            if file is not None:
                yield FilePart(file, id=call_id, provider_name=self._provider)


def file_of(content: RawItem) -> BinaryContent | None:
    """A file whose bytes are in the content; None when there are none."""
    data, media_type = text_of(content, "data"), text_of(content, "mime_type")
    with suppress(ValueError):
        if data and media_type:
            file = BinaryContent(b64decode(data), media_type=media_type)
            return BinaryContent.narrow_type(file)
    return None


def _content(step: RawItem, stem: str) -> Any:
    """The result of a call in the shape of pydantic-ai's own Gemini model."""
    result = step.get("result")
    is_error = step.get("is_error") is True
    if stem == "code_execution":
        outcome = "OUTCOME_FAILED" if is_error else "OUTCOME_OK"
        return {"outcome": outcome, "output": _text_of_result(result)}
    if stem == "mcp_server_tool":
        return {"is_error": is_error, "content": _text_of_result(result)}
    if stem == "url_context":
        return [_page(page) for page in mappings_of(step, "result")]
    return {"type": "result_error", "result": result} if is_error else result


def _page(page: RawItem) -> dict[str, Any]:
    status = f"URL_RETRIEVAL_STATUS_{text_of(page, 'status').upper() or 'UNSPECIFIED'}"
    return {"retrieved_url": text_of(page, "url"), "url_retrieval_status": status}


def _text_of_result(result: Any) -> str:
    """The text of a result: itself, or that of its parts."""
    if isinstance(result, str):
        return result
    texts = [text_of(part, "text") for part in mappings_of({"result": result}, "result")]
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
    """Why the model stopped; None when the status is missing or unknown."""
    return _REASONS.get(text_of(interaction, "status"))


def details_of(interaction: RawItem, unread: list[dict[str, Any]]) -> dict[str, Any]:
    """The provider details of the response."""
    error = mapping_of(interaction, "error")
    details: dict[str, Any] = {
        "finish_reason": text_of(interaction, "status") or None,
        "error": error or None,
        "service_tier": text_of(interaction, "service_tier") or None,
        UNREAD: unread or None,
    }
    return {key: value for key, value in details.items() if value is not None}


def usage_of(interaction: RawItem) -> RequestUsage:
    """The tokens. Those of tool results are input, those of thoughts are output."""
    usage = mapping_of(interaction, "usage")

    def count(name: str) -> int:
        return maybe_int(usage, f"total_{name}_tokens") or 0

    thoughts = count("thought")
    return RequestUsage(
        input_tokens=count("input") + count("tool_use"),
        output_tokens=count("output") + thoughts,
        cache_read_tokens=count("cached"),
        details={"reasoning_tokens": thoughts} if thoughts else {},
    )
