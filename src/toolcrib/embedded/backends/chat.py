"""A backend for OpenAI-compatible chat endpoints: Ollama, llama.cpp, vLLM, LM Studio."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, assert_never
from urllib.parse import urlsplit

from toolcrib.embedded.backend import (
    BackendCall,
    BackendCallResult,
    BackendInput,
    BackendMessage,
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    BackendTool,
    BackendUsage,
    OutputFormat,
    ProposedCall,
    TokenLogprob,
    Truncation,
)
from toolcrib.errors import BackendFailed, UsageError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64
_LONGEST_REASON: Final = 500
SOURCES: Final = (
    "When a tool answers with sources, cite what you take from them by their marks, such as [S1], "
    "right after the sentence."
)
FILES: Final = "Link files that tools made as sandbox:/mnt/data/NAME."


class ChatBackend:
    """Forwards requests to a chat endpoint. `name` is the name for clients, by default `model`.

    With `reads_images` false, requests with images are refused: some endpoints ignore them.
    """

    is_scripted = False
    has_logprobs = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str = "none",
        name: str | None = None,
        client: AsyncOpenAI | None = None,
        seconds: float = 600.0,
        retries: int = 2,
        reads_images: bool = True,
    ) -> None:
        if (base_url is None) == (client is None):
            raise UsageError("pass either the base_url of a chat endpoint or a client")
        self.model = model
        self.reads_images = reads_images
        self._name = name or model
        self._base_url = base_url
        self._api_key = api_key
        self._given = client
        self._made: AsyncOpenAI | None = None
        self._seconds = seconds
        self._retries = retries

    @property
    def name(self) -> str:
        """The model name that clients send in a request."""
        return self._name

    async def aclose(self) -> None:
        """Close the client, unless the caller passed it in."""
        if self._made is not None:
            await self._made.close()

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        """Stream one chat completion."""
        from openai import APIConnectionError, APIError

        names = _wire_names(request.tools)
        has_begun = False
        try:
            stream = await self._client().chat.completions.create(
                **_completion_body(self.model, request, names)
            )
            has_begun = True
            async with stream:
                async for piece in _pieces(stream, {wire: own for own, wire in names.items()}):
                    yield piece
        except APIConnectionError as error:
            why = "its answer broke off" if has_begun else error.message
            raise self._failed(f"{why} {_shown_address(self._client())}") from None
        except APIError as error:
            raise self._failed(error.message) from None
        except ValueError:
            raise self._failed("its answer cannot be read") from None

    def _failed(self, why: str) -> BackendFailed:
        return BackendFailed(f"the model {self.model!r} failed: {why[:_LONGEST_REASON]}")

    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        if self._made is None:
            from openai import AsyncOpenAI

            self._made = AsyncOpenAI(
                base_url=self._base_url,
                api_key=self._api_key,
                timeout=self._seconds,
                max_retries=self._retries,
            )
        return self._made


async def _pieces(stream: Any, own_names: Mapping[str, str]) -> AsyncIterator[BackendOutput]:
    calls, reason = _Calls(), None
    async for chunk in stream:
        if chunk.usage is not None:
            yield BackendUsage(chunk.usage.prompt_tokens or 0, chunk.usage.completion_tokens or 0)
        listed: list[Any] = chunk.choices or []
        for choice in listed[:1]:
            for piece in _said(choice.delta, _logprobs(choice)):
                yield piece
            fragments: list[Any] = choice.delta.tool_calls or []
            for call in fragments:
                calls.add(call)
            reason = choice.finish_reason or reason
    if reason is None:
        raise BackendFailed("the model's answer broke off: the stream ended early")
    for name, arguments in calls.whole():
        yield ProposedCall(own_names.get(name, name), arguments)
    if reason == "length":
        yield Truncation("max_output_tokens")
    elif reason == "content_filter":
        yield Truncation("content_filter")


def _said(delta: Any, logprobs: tuple[TokenLogprob, ...]) -> Iterator[BackendOutput]:
    # Servers use either name for reasoning, and the SDK's types have neither.
    thought: Any = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
    if isinstance(thought, str) and thought:
        yield BackendReasoning(thought)
    if delta.content:
        yield BackendText(delta.content, logprobs)


def _logprobs(choice: Any) -> tuple[TokenLogprob, ...]:
    """The probabilities of a chunk; an endpoint that has none leaves them out."""
    listed: list[Any] = getattr(choice.logprobs, "content", None) or []
    return tuple(
        TokenLogprob(
            entry.token,
            entry.logprob,
            tuple(TokenLogprob(top.token, top.logprob, data=_data(top)) for top in _tops(entry)),
            _data(entry),
        )
        for entry in listed
        if isinstance(entry.logprob, float | int)
    )


def _tops(entry: Any) -> list[Any]:
    return entry.top_logprobs or []


def _data(entry: Any) -> bytes | None:
    return bytes(entry.bytes) if entry.bytes else None


class _Calls:
    """Assembles calls from streamed fragments."""

    def __init__(self) -> None:
        self._calls: dict[object, dict[str, str]] = {}
        self._last: object = None

    def add(self, fragment: Any) -> None:
        """Append a fragment to its call, found by index or, as some servers omit it, by id.

        A fragment with neither continues the last call, unless it has a name of its own.
        """
        function = fragment.function
        name = "" if function is None else function.name or ""
        key: object = fragment.index if fragment.index is not None else fragment.id
        if key is None:
            key = f"unnamed {len(self._calls)}" if name else self._last
        self._last = key
        known = self._calls.setdefault(key, {"name": "", "arguments": ""})
        known["name"] = name or known["name"]
        known["arguments"] += "" if function is None else function.arguments or ""

    def whole(self) -> Iterator[tuple[str, str]]:
        """The names and arguments of the calls, in the order of their first fragments."""
        for call in self._calls.values():
            yield call["name"], call["arguments"] or "{}"


def _shown_address(client: Any) -> str:
    """The address of the endpoint, without credentials."""
    url = urlsplit(str(client.base_url))
    return f"{url.scheme}://{url.hostname}:{url.port or ''}{url.path}".rstrip("/")


def _completion_body(
    model: str, request: BackendRequest, names: Mapping[str, str]
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(request, names),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "logprobs": None if request.top_logprobs is None else True,
        "top_logprobs": request.top_logprobs,
    }
    if request.tools and request.tool_choice != "none":
        body["tools"] = [_tool(tool, names[tool.name]) for tool in request.tools]
        body["tool_choice"] = request.tool_choice
        if not request.is_parallel:
            body["parallel_tool_calls"] = False
    if request.output.is_json:
        body["response_format"] = _format(request.output)
    return {key: value for key, value in body.items() if value is not None}


def _messages(request: BackendRequest, names: Mapping[str, str]) -> list[dict[str, Any]]:
    instructions = "\n\n".join(filter(None, [request.instructions, _rules(request.tools)]))
    messages: list[dict[str, Any]] = (
        [{"role": "system", "content": instructions}] if instructions else []
    )
    images: list[str] = []
    for turn in request.history:
        if isinstance(turn, BackendMessage):
            _append_images(messages, images)
        _append(messages, turn, names)
        if isinstance(turn, BackendCallResult):
            images += turn.images
    _append_images(messages, images)
    return messages


def _append_images(messages: list[dict[str, Any]], images: list[str]) -> None:
    """Show the images of results after all of them: an endpoint takes only text as a result."""
    if images:
        message = BackendMessage("user", "The images of the results above:", tuple(images))
        messages.append({"role": "user", "content": _content(message)})
        images.clear()


def _rules(tools: Sequence[BackendTool]) -> str:
    """How to write what the provider reads out of an answer, as far as a tool brings it about."""
    rules = [
        SOURCES if any(tool.has_sources for tool in tools) else "",
        FILES if any(tool.makes_files for tool in tools) else "",
    ]
    return " ".join(filter(None, rules))


def _append(messages: list[dict[str, Any]], turn: BackendInput, names: Mapping[str, str]) -> None:
    match turn:
        case BackendMessage():
            role = "system" if turn.role == "developer" else turn.role
            messages.append({"role": role, "content": _content(turn)})
        case BackendCall():
            function = {"name": names.get(turn.name, _safe(turn.name)), "arguments": turn.arguments}
            call = {"id": turn.call_id, "type": "function", "function": function}
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            messages[-1].setdefault("tool_calls", []).append(call)
        case BackendCallResult():
            messages.append({"role": "tool", "tool_call_id": turn.call_id, "content": turn.text})
        case _:
            assert_never(turn)


def _content(message: BackendMessage) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.text
    text: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
    return text + [{"type": "image_url", "image_url": {"url": image}} for image in message.images]


def _tool(tool: BackendTool, name: str) -> dict[str, Any]:
    function = {
        "name": name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _format(output: OutputFormat) -> dict[str, Any]:
    if output.kind == "json_object":
        return {"type": "json_object"}
    schema = {"name": output.name, "schema": dict(output.schema or {}), "strict": True}
    return {"type": "json_schema", "json_schema": schema}


def _wire_names(tools: Sequence[BackendTool]) -> dict[str, str]:
    """Map tool names to names that chat endpoints accept, without duplicates."""
    names: dict[str, str] = {}
    for tool in tools:
        wire, again = _safe(tool.name), 2
        while wire in names.values():
            tail = f"_{again}"
            wire, again = _safe(tool.name)[: _LONGEST_NAME - len(tail)] + tail, again + 1
        names[tool.name] = wire
    return names


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)[:_LONGEST_NAME] or "tool"
