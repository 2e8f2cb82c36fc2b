"""The local brain."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any, Final

from toolcrib.local.brain import (
    BrainFailed,
    Called,
    Cut,
    Piece,
    Proposed,
    Question,
    Said,
    Spent,
    Text,
)
from toolcrib.local.brains.local.constraint import constraint_for
from toolcrib.local.brains.local.engine import Engine
from toolcrib.local.brains.local.transcript import messages_for
from toolcrib.local.model.catalog import DEFAULT, find_model

MOST_TOKENS: Final = 1024


class LocalBrain:
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
        self._engine = Engine(path, threads=threads, context=context)

    @property
    def name(self) -> str:
        """The model's name, as clients ask for it."""
        return self._name

    async def aclose(self) -> None:
        """Let go of the model."""
        self._engine.close()

    async def propose(self, question: Question) -> AsyncIterator[Piece]:
        """One step: a call, or an answer."""
        offers = [] if question.choice == "none" else list(question.offers)
        may_answer = question.choice != "required" or not offers
        has_to_answer = may_answer and _has_repeated(question)
        schema = constraint_for(
            [] if has_to_answer else offers, question.output, may_answer=may_answer
        )
        most = min(question.max_output_tokens or MOST_TOKENS, MOST_TOKENS)
        written = await self._engine.write(messages_for(question), schema, most)
        yield Spent(written.input_tokens, written.output_tokens)
        try:
            step = json.loads(written.text)
        except ValueError:
            if not written.is_cut:
                raise BrainFailed("the local model wrote something that is no JSON") from None
            yield Cut("max_output_tokens")
            return
        yield _piece(step)


def _piece(step: dict[str, Any]) -> Piece:
    if "tool" in step:
        return Proposed(str(step["tool"]), json.dumps(step.get("arguments", {})))
    answer = step.get("answer", "")
    return Text(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))


def _has_repeated(question: Question) -> bool:
    """Whether the last call since the user spoke was a repetition."""
    calls: list[tuple[str, str]] = []
    for turn in question.turns:
        if isinstance(turn, Said) and turn.role == "user":
            calls = []
        elif isinstance(turn, Called):
            calls.append((turn.name, turn.arguments))
    return len(calls) != len(set(calls))
