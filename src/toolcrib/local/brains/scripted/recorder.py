"""Writes what a brain does as a scenario that a scripted brain can follow."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolcrib.errors import UsageError
from toolcrib.local.brain import BrainFailed, Piece, Proposed, Question, Text, Thought
from toolcrib.local.brains.scripted.expressions import Facts
from toolcrib.local.brains.scripted.progress import Asked, asked_in, steps_done
from toolcrib.local.brains.scripted.scenario import Scenario, read_scenario
from toolcrib.local.brains.scripted.tracing import Tracer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from toolcrib.local.brain import Brain

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
Json = dict[str, Any]


class Recorder:
    """A brain that passes on what another one proposes, and writes it down.

    Values that tools had answered become expressions, so that the scenario says what the tools of
    its own run answer. Numbers that came neither from a tool nor from the user are in `untraced`:
    the scenario has them as they were. One recorder takes one conversation.
    """

    is_scripted = False

    def __init__(self, brain: Brain) -> None:
        self._brain = brain
        self._first: str | None = None
        self._turns: list[list[Json]] = []
        self.untraced: list[str] = []

    @property
    def name(self) -> str:
        """The name of the brain that is recorded."""
        return self._brain.name

    async def aclose(self) -> None:
        """Let go of the brain."""
        await self._brain.aclose()

    async def propose(self, question: Question) -> AsyncIterator[Piece]:
        """Whatever the brain proposes. What fails is not written down."""
        asked = asked_in(question.turns)
        self._begin(asked)
        pieces: list[Piece] = []
        proposal = cast("AsyncGenerator[Piece]", self._brain.propose(question))
        async with aclosing(proposal):
            async for piece in proposal:
                pieces.append(piece)
                yield piece
        self._write_down(asked, pieces, is_json=question.output.is_json)

    def scenario(self, name: str | None = None) -> Scenario:
        """What was recorded so far, under a name of its own."""
        return read_scenario(self.text(name), "the recording")

    def text(self, name: str | None = None) -> str:
        """The scenario as YAML. Raises `UsageError` when nothing was recorded."""
        import yaml

        turns = [{"steps": steps} for steps in self._turns]
        if not all(self._turns) or not turns:
            raise UsageError("there is nothing recorded, or a question without an answer")
        about = f"Recorded from {self._brain.name}."
        document = {"name": name or self._brain.name, "about": about, "turns": turns}
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)

    def save(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        """Write the scenario into a file."""
        Path(path).write_text(self.text(name), "utf-8")

    def _begin(self, asked: Sequence[Asked]) -> None:
        if self._first is None:
            self._first = asked[0].text
        is_next = len(asked) <= len(self._turns) + 1
        if asked[0].text != self._first or not is_next:
            raise BrainFailed("a recorder takes one conversation; this is another one")

    def _write_down(
        self, asked: Sequence[Asked], pieces: Sequence[Piece], *, is_json: bool
    ) -> None:
        # A question may be asked again: what it was answered with before is not what happened.
        facts, done = self._facts(asked)
        self._turns = [*self._turns[: len(asked) - 1], self._steps(len(asked) - 1)[:done]]
        tracer = Tracer(facts, "\n".join(each.text for each in asked))
        self._turns[-1].append(self._step(tracer, pieces, is_json=is_json))
        self.untraced += tracer.untraced

    def _facts(self, asked: Sequence[Asked]) -> tuple[Facts, int]:
        facts, done = Facts(), 0
        for at, each in enumerate(asked):
            steps = self._steps(at)
            done = 0
            if steps:
                turns = [{"steps": steps}]
                known = read_scenario(json.dumps({"name": "so far", "turns": turns})).turns[0]
                done = steps_done(known.steps, each, facts)
        return facts, done

    def _steps(self, at: int) -> list[Json]:
        return self._turns[at] if at < len(self._turns) else []

    def _step(self, tracer: Tracer, pieces: Sequence[Piece], *, is_json: bool) -> Json:
        step: Json = {}
        thought = "".join(each.text for each in pieces if isinstance(each, Thought))
        said = "".join(each.text for each in pieces if isinstance(each, Text))
        calls = [each for each in pieces if isinstance(each, Proposed)]
        if thought:
            step["think"] = tracer.text(thought)
        if is_json and said and (value := _parsed(said)) is not None:
            step["answer"] = tracer.value(value)
        elif said or not calls:
            step["say"] = tracer.text(said)
        if calls:
            step["calls"] = self._calls(tracer, calls)
        return step

    def _calls(self, tracer: Tracer, calls: Sequence[Proposed]) -> list[Json]:
        taken = {
            call["as"] for steps in self._turns for step in steps for call in step.get("calls", ())
        }
        written: list[Json] = []
        for call in calls:
            name = _free_name(call.name, taken)
            taken.add(name)
            arguments = tracer.value(_parsed(call.arguments) or {})
            written.append({"tool": call.name, "as": name, "arguments": arguments})
        return written


def _free_name(tool: str, taken: set[str]) -> str:
    plain = _NOT_IN_A_NAME.sub("_", tool)
    base = plain if plain[:1].isalpha() else f"_{plain}"
    name, again = base, 2
    while name in taken:
        name, again = f"{base}_{again}", again + 1
    return name


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
