"""llama.cpp in this process."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from toolcrib.errors import BackendFailed, UsageError


@dataclass(frozen=True, slots=True)
class Completion:
    """What the model wrote, and the tokens that it took."""

    text: str
    is_cut: bool
    input_tokens: int
    output_tokens: int


class LlamaModel:
    """One loaded model. It writes one text at a time; loading happens with the first."""

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
        """Let go of the model."""
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
            # Two threads that spin for each other are many times slower on a busy machine.
            os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
            try:
                llama: Any = importlib.import_module("xllamacpp")
            except ImportError:
                raise UsageError(
                    "the local model needs xllamacpp; run: pip install 'toolcrib[llama]'"
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
