"""Any model behind a chat endpoint of OpenAI's form: Ollama, llama.cpp, vLLM, LM Studio."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, assert_never

from toolcrib.errors import UsageError
from toolcrib.local.brain import (
    Answered,
    BrainFailed,
    Called,
    Cut,
    Offer,
    OutputFormat,
    Piece,
    Proposed,
    Question,
    Said,
    Spent,
    Text,
    Thought,
    Turn,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64
CITING: Final = (
    "When a tool answers with sources, cite what you take from them by their marks, such as [S1], "
    "right after the sentence. Link files that tools made as sandbox:/mnt/data/NAME."
)


class ChatBrain:
    """Asks a chat endpoint. `name` is what clients of the provider call it, if not `model`."""

    is_scripted = False

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str = "none",
        name: str | None = None,
        client: AsyncOpenAI | None = None,
        seconds: float = 600.0,
    ) -> None:
        if (base_url is None) == (client is None):
            raise UsageError("give the base_url of a chat endpoint, or a client for one")
        self.model = model
        self._name = name or model
        self._base_url = base_url
        self._api_key = api_key
        self._given = client
        self._made: AsyncOpenAI | None = None
        self._seconds = seconds

    @property
    def name(self) -> str:
        """The model's name, as clients ask for it."""
        return self._name

    async def aclose(self) -> None:
        """End the connections that were made here."""
        if self._made is not None:
            await self._made.close()

    async def propose(self, question: Question) -> AsyncIterator[Piece]:
        """One streamed completion."""
        from openai import APIError

        names = _wire_names(question.offers)
        try:
            stream = await self._client().chat.completions.create(
                **_request(self.model, question, names)
            )
            async with stream:
                async for piece in _pieces(stream, {wire: own for own, wire in names.items()}):
                    yield piece
        except APIError as error:
            raise BrainFailed(f"the model {self.model!r} failed: {error.message[:500]}") from None

    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        if self._made is None:
            from openai import AsyncOpenAI

            self._made = AsyncOpenAI(
                base_url=self._base_url, api_key=self._api_key, timeout=self._seconds
            )
        return self._made


async def _pieces(stream: Any, own_names: Mapping[str, str]) -> AsyncIterator[Piece]:
    calls: dict[int, dict[str, str]] = {}
    reason: str | None = None
    async for chunk in stream:
        if chunk.usage is not None:
            yield Spent(chunk.usage.prompt_tokens or 0, chunk.usage.completion_tokens or 0)
        for choice in chunk.choices[:1]:
            thought = getattr(choice.delta, "reasoning_content", None) or getattr(
                choice.delta, "reasoning", None
            )
            if isinstance(thought, str) and thought:
                yield Thought(thought)
            if choice.delta.content:
                yield Text(choice.delta.content)
            for place, call in enumerate(choice.delta.tool_calls or []):
                _gather(calls, call, place)
            reason = choice.finish_reason or reason
    for _, call in sorted(calls.items()):
        yield Proposed(own_names.get(call["name"], call["name"]), call["arguments"] or "{}")
    if reason == "length":
        yield Cut("max_output_tokens")
    elif reason == "content_filter":
        yield Cut("content_filter")


def _gather(calls: dict[int, dict[str, str]], call: Any, place: int) -> None:
    """Put a fragment to its call. Some servers leave the index out."""
    at = place if call.index is None else call.index
    known = calls.setdefault(at, {"name": "", "arguments": ""})
    if call.function is not None:
        known["name"] = call.function.name or known["name"]
        known["arguments"] += call.function.arguments or ""


def _request(model: str, question: Question, names: Mapping[str, str]) -> dict[str, Any]:
    request: dict[str, Any] = {
        "model": model,
        "messages": _messages(question, names),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": question.max_output_tokens,
        "temperature": question.temperature,
        "top_p": question.top_p,
    }
    if question.offers and question.choice != "none":
        request["tools"] = [_tool(offer, names[offer.name]) for offer in question.offers]
        request["tool_choice"] = question.choice
        if not question.is_parallel:
            request["parallel_tool_calls"] = False
    if question.output.is_json:
        request["response_format"] = _format(question.output)
    return {key: value for key, value in request.items() if value is not None}


def _messages(question: Question, names: Mapping[str, str]) -> list[dict[str, Any]]:
    told = "\n\n".join(filter(None, [question.instructions, CITING if question.offers else ""]))
    messages: list[dict[str, Any]] = [{"role": "system", "content": told}] if told else []
    for turn in question.turns:
        _append(messages, turn, names)
    return messages


def _append(messages: list[dict[str, Any]], turn: Turn, names: Mapping[str, str]) -> None:
    match turn:
        case Said():
            role = "system" if turn.role == "developer" else turn.role
            messages.append({"role": role, "content": _content(turn)})
        case Called():
            function = {"name": names.get(turn.name, _safe(turn.name)), "arguments": turn.arguments}
            call = {"id": turn.call_id, "type": "function", "function": function}
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            messages[-1].setdefault("tool_calls", []).append(call)
        case Answered():
            messages.append({"role": "tool", "tool_call_id": turn.call_id, "content": turn.text})
        case _:
            assert_never(turn)


def _content(said: Said) -> str | list[dict[str, Any]]:
    if not said.images:
        return said.text
    text: list[dict[str, Any]] = [{"type": "text", "text": said.text}] if said.text else []
    return text + [{"type": "image_url", "image_url": {"url": image}} for image in said.images]


def _tool(offer: Offer, name: str) -> dict[str, Any]:
    function = {
        "name": name,
        "description": offer.description,
        "parameters": dict(offer.parameters),
    }
    return {"type": "function", "function": function}


def _format(output: OutputFormat) -> dict[str, Any]:
    if output.kind == "json_object":
        return {"type": "json_object"}
    schema = {"name": output.name, "schema": dict(output.schema or {}), "strict": True}
    return {"type": "json_schema", "json_schema": schema}


def _wire_names(offers: Sequence[Offer]) -> dict[str, str]:
    """A name for each tool that chat endpoints take, by its own name; no two are the same."""
    names: dict[str, str] = {}
    for offer in offers:
        wire, again = _safe(offer.name), 2
        while wire in names.values():
            tail = f"_{again}"
            wire, again = _safe(offer.name)[: _LONGEST_NAME - len(tail)] + tail, again + 1
        names[offer.name] = wire
    return names


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)[:_LONGEST_NAME] or "tool"
