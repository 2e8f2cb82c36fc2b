"""The scripted brain."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Self

from toolcrib.local.brain import (
    Answered,
    BrainFailed,
    Piece,
    Proposed,
    Question,
    Said,
    Text,
    Thought,
    Turn,
)
from toolcrib.local.brains.scripted.expressions import (
    Fact,
    Facts,
    Unanswered,
    filled,
    filled_text,
)
from toolcrib.local.brains.scripted.scenario import (
    Scenario,
    ScriptedTurn,
    Step,
    load_scenario,
)

_WORDS_AT_ONCE: Final = 4


class ScriptedBrain:
    """Says and calls what a scenario has written. Nothing in it is remembered: where the scenario
    stands is read from the conversation, so that it goes on after a restart.
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
        place, since = _since_user(question.turns)
        turn = self._turn(place, since)
        answers = [each for each in since if isinstance(each, Answered)]
        step, facts = _reached(turn, answers)
        try:
            for piece in _pieces(step, facts, question):
                yield piece
        except Unanswered as error:
            raise BrainFailed(f"the scenario {self.name!r} cannot go on: {error}") from None

    def _turn(self, place: int, since: Sequence[Turn]) -> ScriptedTurn:
        said = since[0].text if since and isinstance(since[0], Said) else ""
        for turn in self.scenario.turns:
            if turn.when is not None and turn.when.casefold() in said.casefold():
                return turn
        plain = [turn for turn in self.scenario.turns if turn.when is None]
        if place >= len(plain):
            raise BrainFailed(
                f"the scenario {self.name!r} has nothing for this: it is written for other "
                "questions, and this brain is scripted"
            )
        return plain[place]


def _since_user(turns: Sequence[Turn]) -> tuple[int, Sequence[Turn]]:
    """Which question of the user's this is, and all that happened since it was asked."""
    asked = [at for at, turn in enumerate(turns) if isinstance(turn, Said) and turn.role == "user"]
    if not asked:
        return 0, turns
    return len(asked) - 1, turns[asked[-1] :]


def _reached(turn: ScriptedTurn, answers: Sequence[Answered]) -> tuple[Step, Facts]:
    """The step that comes next, and the facts that were answered on the way."""
    facts, left = Facts(), list(answers)
    for step in turn.steps:
        calls = step.calls or []
        if not calls or len(left) < len(calls):
            return step, facts
        for call in calls:
            answer = left.pop(0)
            facts.by_name[call.name] = Fact(answer.text, answer.value, answer.marks)
    raise BrainFailed("the scenario is over: its last step has calls, and nothing after them")


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
