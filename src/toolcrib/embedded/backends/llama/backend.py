"""The llama.cpp backend: one step of a small model per request, which is one call or one answer.

Small models do not keep to a format and do not end a long text by themselves. So the JSON schema of
a step is enforced while they write, and every text and list in it is bounded.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from toolcrib.embedded.backend import (
    BackendCall,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    BackendTool,
    BackendUsage,
    OutputFormat,
    ProposedCall,
    Truncation,
)
from toolcrib.embedded.backends.llama.steps import next_step
from toolcrib.embedded.backends.llama.transcript import (
    FULL,
    ChatMessage,
    PromptGuide,
    guide_for,
    messages_for,
)
from toolcrib.embedded.model_files import DEFAULT, find_model
from toolcrib.errors import BackendFailed, UsageError
from toolcrib.extras import install_command

LONGEST_ANSWER: Final = 1500
LONGEST_TEXT: Final = 400
LONGEST_CODE: Final = 2000
MAX_MEMBERS: Final = 16
_DROPPED: Final = frozenset({"title", "description", "examples", "default", "$schema", "format"})


def constraint_for(
    tools: Sequence[BackendTool], output: OutputFormat, *, may_answer: bool
) -> dict[str, Any]:
    """The schema of one step."""
    forms = [_call_form(tool) for tool in tools]
    if may_answer or not forms:
        forms.append(_answer_form(output))
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _call_form(tool: BackendTool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"tool": {"const": tool.name}, "arguments": bounded(tool.parameters)},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def _answer_form(output: OutputFormat) -> dict[str, Any]:
    answer: dict[str, Any] = {"type": "string", "maxLength": LONGEST_ANSWER}
    if output.kind == "json_object":
        answer = {"type": "object"}
    elif output.schema is not None:
        answer = bounded(output.schema)
    return {
        "type": "object",
        "properties": {"answer": answer},
        "required": ["answer"],
        "additionalProperties": False,
    }


def bounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a schema with bounds on every text and every list."""
    copy: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED:
            continue
        if key in ("enum", "const"):
            copy[key] = value
        elif key in ("properties", "$defs", "definitions"):
            members = cast(Mapping[str, Any], value)
            copy[key] = {name: _member(name, member) for name, member in members.items()}
        else:
            copy[key] = _inner(value)
    if copy.get("type") == "string" and "enum" not in copy and "const" not in copy:
        copy["maxLength"] = min(copy.get("maxLength", LONGEST_TEXT), LONGEST_TEXT)
    if copy.get("type") == "array":
        copy["maxItems"] = min(copy.get("maxItems", MAX_MEMBERS), MAX_MEMBERS)
    if copy.get("type") == "object":
        copy.setdefault("additionalProperties", False)
    return copy


def _member(name: str, schema: Any) -> Any:
    if name == "code" and isinstance(schema, Mapping):
        inner = bounded(cast(Mapping[str, Any], schema))
        return {**inner, "maxLength": LONGEST_CODE} if "maxLength" in inner else inner
    return _inner(schema)


def _inner(value: Any) -> Any:
    if isinstance(value, Mapping):
        return bounded(cast(Mapping[str, Any], value))
    if isinstance(value, list):
        return [_inner(member) for member in cast(list[Any], value)]
    return value


@dataclass(frozen=True, slots=True)
class Completion:
    """A text of the model, and its token usage."""

    text: str
    is_cut: bool
    input_tokens: int
    output_tokens: int


class LlamaModel:
    """One model, loaded with the first text. It writes one text at a time."""

    def __init__(self, path: Path, *, threads: int | None = None, context: int = 8192) -> None:
        self._path = path
        self._threads = threads or max(1, min(4, (os.cpu_count() or 2)))
        self._context = context
        self._server: Any = None
        self._lock = threading.Lock()

    async def write(
        self, messages: Sequence[dict[str, str]], schema: dict[str, Any], most_tokens: int
    ) -> Completion:
        """Write a text that fits the schema. Raises `BackendFailed`.

        Cancelling the wait does not stop the model.
        """
        return await asyncio.to_thread(self._write, list(messages), schema, most_tokens)

    def close(self) -> None:
        """Unload the model."""
        with self._lock:
            self._server = None

    def _write(
        self, messages: list[dict[str, str]], schema: dict[str, Any], most_tokens: int
    ) -> Completion:
        request: dict[str, Any] = {
            "messages": messages,
            "temperature": 0,
            "max_tokens": most_tokens,
            "cache_prompt": True,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "step", "schema": schema, "strict": True},
            },
        }
        with self._lock:
            answer = self._loaded().handle_chat_completions(request)
        return _written(answer)

    def _loaded(self) -> Any:
        if self._server is None:
            # Threads that wait by spinning are many times slower on a busy machine.
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            try:
                llama: Any = importlib.import_module("xllamacpp")
            except ImportError:
                raise UsageError(
                    f"the local model needs xllamacpp; run: {install_command('llama')}"
                ) from None
            self._server = llama.Server(self._params(llama))
        return self._server

    def _params(self, llama: Any) -> Any:
        params = llama.CommonParams()
        params.model.path = str(self._path)
        params.n_ctx = self._context
        params.n_parallel = 1
        params.use_jinja = True
        params.warmup = False
        params.verbosity = -1
        params.cpuparams.n_threads = self._threads
        params.cpuparams_batch.n_threads = self._threads
        return params


def _written(answer: Any) -> Completion:
    read: Any = json.loads(answer) if isinstance(answer, str | bytes) else answer
    facts = cast(dict[str, Any], read) if isinstance(read, dict) else {}
    if "choices" not in facts:
        raise BackendFailed(
            "the local model did not answer; the conversation may be too long for it"
        )
    choice: Any = facts["choices"][0]
    usage: Any = facts.get("usage") or {}
    return Completion(
        str(choice["message"].get("content") or ""),
        choice.get("finish_reason") == "length",
        int(usage.get("prompt_tokens", 0)),
        int(usage.get("completion_tokens", 0)),
    )


MAX_TOKENS: Final = 1024

Write: TypeAlias = Callable[[list[ChatMessage], dict[str, Any], int], Awaitable[Completion]]
"""Writes a text: takes messages, the schema of the text, and the token limit."""


class LlamaBackend:
    """A GGUF model in this process, by its name in the catalog or by a path.

    It proposes one call at a time. If it repeats a call with the same arguments, it must answer
    instead: small models otherwise loop.
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
        """The model name that clients send in a request."""
        return self._name

    async def aclose(self) -> None:
        """Unload the model."""
        self._engine.close()

    def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        """Propose one call, or answer."""
        return propose_with(self._engine.write, request, self._guide)


async def propose_with(
    write: Write, request: BackendRequest, guide: PromptGuide = FULL
) -> AsyncIterator[BackendOutput]:
    """Propose one call, or answer, with any function that writes texts for a schema."""
    tools = [] if request.tool_choice == "none" else list(request.tools)
    may_answer = request.tool_choice != "required" or not tools
    most = min(request.max_output_tokens or MAX_TOKENS, MAX_TOKENS)
    step = next_step(request) if tools and request.tool_choice == "auto" else None
    messages = messages_for(request, guide, step)
    if step is not None:
        tools = [] if step.tool is None else [step.tool]
        may_answer = step.tool is None or step.is_optional
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
            raise BackendFailed("the local model wrote invalid JSON") from None
        return Truncation("max_output_tokens")
    if "tool" in step:
        return ProposedCall(str(step["tool"]), json.dumps(step.get("arguments", {})))
    answer = step.get("answer", "")
    return BackendText(
        answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    )


def _made(request: BackendRequest) -> set[tuple[str, str]]:
    """The calls since the last message of the user."""
    calls: set[tuple[str, str]] = set()
    for turn in request.history:
        if isinstance(turn, BackendMessage) and turn.role == "user":
            calls = set()
        elif isinstance(turn, BackendCall):
            calls.add(_key(turn))
    return calls


def _key(call: BackendCall | ProposedCall) -> tuple[str, str]:
    """The name and the normalized arguments of a call."""
    with suppress(ValueError):
        return call.name, json.dumps(json.loads(call.arguments), sort_keys=True)
    return call.name, call.arguments
