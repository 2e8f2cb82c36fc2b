"""The scripted brain."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Self

from toolcrib.local.brain import BrainFailed, Piece, Proposed, Question, Text, Thought
from toolcrib.local.brains.scripted.expressions import Facts, Unanswered, filled, filled_text
from toolcrib.local.brains.scripted.progress import Asked, asked_in, steps_done
from toolcrib.local.brains.scripted.scenario import (
    Scenario,
    ScriptedTurn,
    Step,
    load_scenario,
)

_WORDS_AT_ONCE: Final = 4


class ScriptedBrain:
    """Says and calls what a scenario has written. Nothing in it is remembered: where the scenario
    stands is read from the conversation, so that it goes on after a restart. What tools answered
    to earlier questions can be spoken of later.
    """

    is_scripted = True

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """A brain of a scenario's file. Raises `UsageError`."""
        return cls(load_scenario(path))

    @property
    def name(self) -> str:
        """The model's name."""
        return self.scenario.name

    async def aclose(self) -> None:
        """There is nothing to let go of."""

    async def propose(self, question: Question) -> AsyncIterator[Piece]:
        """The next step of the scenario."""
        step, facts = self._reached(asked_in(question.turns))
        try:
            for piece in _pieces(step, facts, question):
                yield piece
        except Unanswered as error:
            raise BrainFailed(f"the scenario {self.name!r} cannot go on: {error}") from None

    def _reached(self, questions: Sequence[Asked]) -> tuple[Step, Facts]:
        """The step that comes next, and all that was answered on the way to it."""
        facts, plain = Facts(), 0
        turn: ScriptedTurn | None = None
        done = 0
        for asked in questions:
            turn = self._turn(asked.text, plain)
            plain += turn is None or turn.when is None
            done = steps_done(turn.steps, asked, facts) if turn else 0
        if turn is None:
            raise BrainFailed(
                f"the scenario {self.name!r} has nothing for this: it is written for other "
                "questions, and this brain is scripted"
            )
        if done == len(turn.steps):
            raise BrainFailed(
                f"the scenario {self.name!r} is over: its last step has calls, and nothing "
                "comes after them"
            )
        return turn.steps[done], facts

    def _turn(self, said: str, plain_before: int) -> ScriptedTurn | None:
        """What is written for something that the user says, by its words or by its place."""
        for turn in self.scenario.turns:
            if turn.when is not None and turn.when.casefold() in said.casefold():
                return turn
        plain = [turn for turn in self.scenario.turns if turn.when is None]
        return plain[plain_before] if plain_before < len(plain) else None


def _pieces(step: Step, facts: Facts, question: Question) -> list[Piece]:
    pieces: list[Piece] = []
    if step.think is not None:
        pieces.append(Thought(filled_text(step.think, facts)))
    if step.texts:
        pieces += _spoken(_first_possible(step.texts, facts))
    if step.answer is not None:
        pieces += _spoken(json.dumps(_first_answer(step, facts), ensure_ascii=False))
    offered = {offer.name for offer in question.offers}
    for call in step.calls or []:
        if call.tool not in offered:
            have = ", ".join(sorted(offered)) or "none"
            raise Unanswered(f"the request offers no tool {call.tool!r}; it offers {have}")
        pieces.append(Proposed(call.tool, _arguments(call.arguments, facts)))
    return pieces


def _arguments(arguments: dict[str, Any], facts: Facts) -> str:
    return json.dumps(filled(arguments, facts), ensure_ascii=False)


def _first_possible(texts: Sequence[str], facts: Facts) -> str:
    """The first text whose facts are all there. Raises `Unanswered` of the last."""
    for text in texts[:-1]:
        try:
            return filled_text(text, facts)
        except Unanswered:
            continue
    return filled_text(texts[-1], facts)


def _first_answer(step: Step, facts: Facts) -> Any:
    if step.otherwise is None:
        return filled(step.answer, facts)
    try:
        return filled(step.answer, facts)
    except Unanswered:
        return filled(step.otherwise, facts)


def _spoken(text: str) -> list[Piece]:
    """Text in pieces of a few words, as a model would give it."""
    words = text.split(" ")
    groups = [words[at : at + _WORDS_AT_ONCE] for at in range(0, len(words), _WORDS_AT_ONCE)]
    joined = [" ".join(group) for group in groups]
    return [*(Text(piece + " ") for piece in joined[:-1]), Text(joined[-1])]
