"""The local backend."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast

from toolcrib.embedded.backend import (
    BackendCall,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    BackendUsage,
    ProposedCall,
    Truncation,
)
from toolcrib.embedded.backends.llama.constraint import constraint_for
from toolcrib.embedded.backends.llama.model import Completion, LlamaModel
from toolcrib.embedded.backends.llama.transcript import (
    FULL,
    ChatMessage,
    PromptGuide,
    guide_for,
    messages_for,
)
from toolcrib.embedded.weights.catalog import DEFAULT, find_model
from toolcrib.errors import BackendFailed

MOST_TOKENS: Final = 1024

Write: TypeAlias = Callable[[list[ChatMessage], dict[str, Any], int], Awaitable[Completion]]
"""Takes messages, the schema that the text must fit, and the most tokens."""


class LlamaBackend:
    """A GGUF model in this process, by the name of a known one or by a path.

    It proposes one call at a time. A call that it has made already with the same arguments is not
    made again: it has to answer then.
    """

    is_scripted = False

    def __init__(
        self,
        model: str | os.PathLike[str] = DEFAULT.name,
        *,
        name: str | None = None,
        threads: int | None = None,
        context: int = 8192,
    ) -> None:
        path = find_model(model)
        self._name = name or (str(model) if os.sep not in str(model) else path.stem)
        self._guide = guide_for(path.stat().st_size)
        self._engine = LlamaModel(path, threads=threads, context=context)

    @property
    def name(self) -> str:
        """The model's name, as clients ask for it."""
        return self._name

    async def aclose(self) -> None:
        """Let go of the model."""
        self._engine.close()

    def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        """One step: a call, or an answer."""
        return propose_with(self._engine.write, request, self._guide)


async def propose_with(
    write: Write, request: BackendRequest, guide: PromptGuide = FULL
) -> AsyncIterator[BackendOutput]:
    """One step, by whatever writes texts that fit a schema."""
    tools = [] if request.tool_choice == "none" else list(request.tools)
    may_answer = request.tool_choice != "required" or not tools
    most = min(request.max_output_tokens or MOST_TOKENS, MOST_TOKENS)
    messages = messages_for(request, guide)
    schema = constraint_for(tools, request.output, may_answer=may_answer)
    written = await write(messages, schema, most)
    yield BackendUsage(written.input_tokens, written.output_tokens)
    piece = _piece(written)
    if may_answer and isinstance(piece, ProposedCall) and _key(piece) in _made(request):
        written = await write(messages, constraint_for([], request.output, may_answer=True), most)
        yield BackendUsage(written.input_tokens, written.output_tokens)
        piece = _piece(written)
    yield piece


def _piece(written: Completion) -> BackendOutput:
    try:
        step = cast(dict[str, Any], json.loads(written.text))
    except ValueError:
        if not written.is_cut:
            raise BackendFailed("the local model wrote something that is no JSON") from None
        return Truncation("max_output_tokens")
    if "tool" in step:
        return ProposedCall(str(step["tool"]), json.dumps(step.get("arguments", {})))
    answer = step.get("answer", "")
    return BackendText(
        answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    )


def _made(request: BackendRequest) -> set[tuple[str, str]]:
    """The calls since the user spoke."""
    calls: set[tuple[str, str]] = set()
    for turn in request.history:
        if isinstance(turn, BackendMessage) and turn.role == "user":
            calls = set()
        elif isinstance(turn, BackendCall):
            calls.add(_key(turn))
    return calls


def _key(call: BackendCall | ProposedCall) -> tuple[str, str]:
    """A call by its name and its arguments, however they are written."""
    with suppress(ValueError):
        return call.name, json.dumps(json.loads(call.arguments), sort_keys=True)
    return call.name, call.arguments
