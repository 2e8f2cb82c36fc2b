"""The patch of pydantic-ai's Gemini model.

pydantic-ai fails at parts and at hosted tools that it does not know, gives every result to the code
right before it, and drops citations without a place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

from google.genai.types import Part
from pydantic_ai.messages import (
    Citation,
    CitationSource,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.google import GeminiStreamedResponse, GoogleModel

from toolcrib.adapters.items import mapping_of, mappings_of, plain, text_of
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    PatchedModel,
    add_part,
    filter_stream,
    revise_response,
)
from toolcrib.adapters.pydantic_ai.patched_models.stream_filter import StreamFilter
from toolcrib.adapters.pydantic_ai.patched_models.unknown_content import (
    Json,
    UnknownContent,
    WireCalls,
    citation_source,
)

_TOOLS: Final = frozenset({"FILE_SEARCH", "GOOGLE_SEARCH_WEB", "MEDIA_PROCESSING", "URL_CONTEXT"})
_NATIVE: Final = {"GOOGLE_SEARCH_IMAGE": "web_search"}
_PARTS: Final = ("executable_code", "text", "function_call", "inline_data", "thought_signature")
_AFTER_CALLS: Final = frozenset({"text", "tool-call"})
_STANDARD: Final = str.maketrans("-_", "+/")


class PatchedGoogleModel(PatchedModel, GoogleModel):
    """Keeps every part of a response."""

    def read_response(self, response: Any, parse: Callable[[Any], ModelResponse]) -> ModelResponse:
        """The response with every part of the provider's."""
        unknown, calls = GeminiUnknownParts(self.system), GeminiCalls()
        calls.read(response)
        extracted = list(unknown.extract(response))
        reply = parse(response)
        parts = list(reply.parts)
        kinds = [part.part_kind for part in parts]
        place = next((n for n, kind in enumerate(kinds) if kind in _AFTER_CALLS), len(parts))
        reply.parts = [*parts[:place], *extracted, *parts[place:]]
        unknown.attach(reply)
        calls.finish(reply)
        return reply

    def read_stream(
        self, streamed: StreamedResponse, parse: Callable[[Any], ModelResponse]
    ) -> None:
        """Take unknown parts out of the stream and add parts for them."""
        if isinstance(streamed, GeminiStreamedResponse):
            reader = GeminiChunks(streamed, GeminiUnknownParts(self.system))
            filter_stream(streamed, reader)
            revise_response(streamed, reader.revised)


class GeminiChunks(StreamFilter):
    """The chunks of one stream, without parts that pydantic-ai does not know."""

    def __init__(self, streamed: GeminiStreamedResponse, unknown: GeminiUnknownParts) -> None:
        super().__init__()
        self._streamed = streamed
        self._unknown = unknown
        self._calls = GeminiCalls()
        self._first: Any = None
        self._is_over = False
        self._begins_again = False

    def is_unique(self, event: Any) -> bool:
        return _is_last(event)

    def expand(self, event: Any) -> Iterator[Any]:
        # A stream that begins again after its end is a repetition.
        if self._is_over and event == self._first:
            self._begins_again = True
        if self._begins_again:
            return
        self._first = self._first or deepcopy(event)
        self._is_over = self._is_over or _is_last(event)
        self._calls.read(event)
        for part in self._unknown.extract(event):
            add_part(self._streamed, part)
        yield event

    def at_end(self) -> None:
        self._unknown.attach(self._streamed)

    def revised(self, reply: ModelResponse) -> ModelResponse:
        """The response that the stream came to, with calls and results matched."""
        self._calls.finish(reply)
        return reply


class GeminiCalls:
    """The code that Gemini ran, its results, and the other calls of one response.

    pydantic-ai gives every result to the code right before it. Gemini says by an id which code a
    result is of; without ids the results are in the order of the code.
    """

    def __init__(self) -> None:
        self._code: list[Json] = []
        self._results: list[Json] = []
        self._wire = WireCalls()
        self._grounding: Json = {}

    def read(self, response: Any) -> None:
        """Take in a response or a chunk of one, as the provider sent it."""
        for candidate in (response.candidates or ())[:1]:
            for part in (candidate.content and candidate.content.parts) or ():
                self._read_part(part)
            if candidate.grounding_metadata is not None:
                self._grounding = plain(candidate.grounding_metadata)
                content: Json = {"groundingMetadata": self._grounding}
                self._wire.tool("web_search", content)
                self._wire.tool("file_search", content)
            if candidate.url_context_metadata is not None:
                content = {"urlContextMetadata": plain(candidate.url_context_metadata)}
                self._wire.tool("web_fetch", content)

    def finish(self, reply: ModelResponse) -> None:
        """Match the results with their code, and add what else pydantic-ai left out."""
        self._match(reply.parts)
        self._wire.attach(reply)
        cite_the_rest(reply, self._grounding)

    def _read_part(self, part: Any) -> None:
        if part.executable_code is not None:
            self._code.append(_json(part))
        elif part.code_execution_result is not None:
            self._results.append(_json(part))
        elif part.tool_call is not None and part.tool_call.id:
            self._wire.call(part.tool_call.id, _json(part))
        elif part.tool_response is not None and part.tool_response.id:
            self._wire.result(part.tool_response.id, _json(part))

    def _match(self, parts: Sequence[ModelResponsePart]) -> None:
        native = [part for part in parts if getattr(part, "tool_name", "") == "code_execution"]
        calls = [part for part in native if isinstance(part, NativeToolCallPart)]
        results = [part for part in native if isinstance(part, NativeToolReturnPart)]
        open_ids: list[str] = []
        for part, content in zip(calls, self._run_code(calls), strict=False):
            part.tool_call_id = _id(content, "executableCode") or part.tool_call_id
            open_ids.append(part.tool_call_id)
            self._wire.call(part.tool_call_id, content)
        named = {_id(content, "codeExecutionResult") for content in self._results}
        unnamed = [call_id for call_id in open_ids if call_id not in named]
        for part, content in zip(results, self._results, strict=False):
            call_id = _id(content, "codeExecutionResult") or (unnamed.pop(0) if unnamed else "")
            part.tool_call_id = call_id or NativeToolCallPart("").tool_call_id
            self._wire.result(part.tool_call_id, content)

    def _run_code(self, calls: Sequence[NativeToolCallPart]) -> list[Json]:
        """The code of the calls; pydantic-ai takes some code for a search in files."""
        texts = [text_of(call.args_as_dict(), "code") for call in calls]
        run: list[Json] = []
        for content in self._code:
            code = text_of(mapping_of(content, "executableCode"), "code")
            if len(run) < len(texts) and texts[len(run)] == code:
                run.append(content)
        return run


def cite_the_rest(reply: ModelResponse, grounding: Json) -> None:
    """Add the citations that pydantic-ai drops because they have no place in the text."""
    texts = [part for part in reply.parts if isinstance(part, TextPart)]
    supports = mappings_of(grounding, "groundingSupports")
    if not texts or not supports:
        return
    placed = sum(len(mappings_of(part.provider_details or {}, "citations")) for part in texts)
    chunks = mappings_of(grounding, "groundingChunks")
    cited = [sources for support in supports if (sources := _sources(support, chunks))]
    if placed >= len(cited):
        return
    known = [
        _fact(raw)
        for part in texts
        for raw in mappings_of(part.provider_details or {}, "citations")
    ]
    for support in supports:
        sources, fact = _sources(support, chunks), _fact(support)
        if fact in known:
            known.remove(fact)
        elif sources:
            texts[-1].citations = [*(texts[-1].citations or ()), Citation(sources)]


def _fact(support: Json) -> tuple[Any, ...]:
    """What tells a support apart, in the words of the wire or in pydantic-ai's."""
    segment = mapping_of(support, "segment")
    indices = support.get("groundingChunkIndices", support.get("grounding_chunk_indices")) or ()
    places = [
        segment.get(name, segment.get(other)) or 0
        for name, other in (("startIndex", "start_index"), ("endIndex", "end_index"))
    ]
    return (*places, text_of(segment, "text"), *indices)


def _sources(support: Json, chunks: Sequence[Json]) -> list[CitationSource]:
    indices: list[Any] = support.get("groundingChunkIndices") or []
    found = [chunks[at] for at in indices if isinstance(at, int) and 0 <= at < len(chunks)]
    return [source for chunk in found if (source := _source(chunk)) is not None]


def _source(chunk: Json) -> CitationSource | None:
    for name in ("web", "maps", "image"):
        page = mapping_of(chunk, name)
        if url := text_of(page, "uri") or text_of(page, "sourceUri"):
            return citation_source(url=url, title=text_of(page, "title"))
    if document := mapping_of(chunk, "retrievedContext"):
        return citation_source(
            title=text_of(document, "title"),
            document_id=text_of(document, "documentName"),
            excerpt=text_of(document, "text"),
        )
    return None


class GeminiUnknownParts(UnknownContent):
    """Parts that pydantic-ai does not know."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._open_ids: dict[str, list[str]] = {}
        self._has_run_code = False

    def extract(self, response: Any) -> Iterator[ModelResponsePart]:
        """Take the unknown parts out of a response, and give calls and results their ids."""
        for candidate in (response.candidates or ())[:1]:
            parts: list[Any] = (candidate.content and candidate.content.parts) or []
            for index, part in enumerate(parts):
                self._identify(part)
                self._has_run_code = self._has_run_code or part.executable_code is not None
                if not self._is_known(part):
                    # Citations count parts, so an empty text, which is ignored, stays in place.
                    parts[index] = Part(text="")
                    yield from self._read(part)

    def _is_known(self, part: Any) -> bool:
        tool = part.tool_call or part.tool_response
        if tool is not None:
            return _word(tool.tool_type) in _TOOLS
        if part.code_execution_result is not None:
            return self._has_run_code
        return any(getattr(part, name, None) is not None for name in _PARTS)

    def _identify(self, part: Any) -> None:
        """Give a call without an id one, and the first result without an id the same."""
        if part.tool_call is not None and not part.tool_call.id:
            part.tool_call.id = call_id = NativeToolCallPart("").tool_call_id
            self._open_ids.setdefault(_word(part.tool_call.tool_type), []).append(call_id)
        if part.tool_response is not None and not part.tool_response.id:
            open_ids = self._open_ids.get(_word(part.tool_response.tool_type))
            part.tool_response.id = open_ids.pop(0) if open_ids else None

    def _read(self, part: Any) -> Iterator[ModelResponsePart]:
        content = plain(part)
        if part.tool_call is not None:
            arguments: dict[str, Any] = part.tool_call.args or {}
            name, call_id = _name(part.tool_call), part.tool_call.id
            yield NativeToolCallPart(name, arguments, call_id, provider_name=self.provider)
        elif part.tool_response is not None:
            result: dict[str, Any] = part.tool_response.response or {}
            name, call_id = _name(part.tool_response), part.tool_response.id or ""
            yield NativeToolReturnPart(name, result, call_id, provider_name=self.provider)
        elif part.code_execution_result is not None:
            # The code ran in an earlier response.
            result = {**mapping_of(content, "codeExecutionResult")}
            call_id = text_of(result, "id") or NativeToolCallPart("").tool_call_id
            yield NativeToolReturnPart(
                "code_execution", result, call_id, provider_name=self.provider
            )
        else:
            self.keep({"type": next(iter(content), "part"), **content})


def _id(content: Json, kind: str) -> str:
    return text_of(mapping_of(content, kind), "id")


def _json(part: Any) -> Json:
    """A part as the provider sent it: the SDK writes bytes in another alphabet."""
    content = plain(part)
    signature = text_of(content, "thoughtSignature").translate(_STANDARD)
    return {**content, "thoughtSignature": signature} if signature else content


def _is_last(chunk: Any) -> bool:
    candidates: list[Any] = chunk.candidates or []
    return any(candidate.finish_reason is not None for candidate in candidates[:1])


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))


def _name(tool: Any) -> str:
    word = _word(tool.tool_type)
    return _NATIVE.get(word) or word.lower()
