"""The scripted backend.

Where a scenario stands, read from the conversation alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from toolcrib.embedded.backend import (
    BackendCall,
    BackendCallResult,
    BackendInput,
    BackendMessage,
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    ProposedCall,
)
from toolcrib.embedded.backends.scripted.expressions import (
    Fact,
    Facts,
    MissingFact,
    filled,
    filled_text,
)
from toolcrib.embedded.backends.scripted.scenario import (
    Scenario,
    ScriptedStep,
    ScriptedTurn,
    load_scenario,
)
from toolcrib.errors import BackendFailed


@dataclass(frozen=True, slots=True)
class UserTurn:
    """Something that the user said, and the tools' answers until the user spoke again, in the
    order in which the calls were made.
    """

    text: str
    answers: list[tuple[str, Fact]] = field(default_factory=list[tuple[str, Fact]])


def user_turns(turns: Sequence[BackendInput]) -> list[UserTurn]:
    """All that the user asked; at least one."""
    answers = {each.call_id: each for each in turns if isinstance(each, BackendCallResult)}
    found: list[UserTurn] = []
    for turn in turns:
        if isinstance(turn, BackendMessage) and turn.role == "user":
            found.append(UserTurn(turn.text))
        elif isinstance(turn, BackendCall) and (answer := answers.get(turn.call_id)):
            found = found or [UserTurn("")]
            fact = Fact(answer.text, answer.value, answer.marks)
            found[-1].answers.append((answer.name, fact))
    return found or [UserTurn("")]


def steps_done(steps: Sequence[ScriptedStep], asked: UserTurn, facts: Facts) -> int:
    """How many steps are over, because all of their calls were answered or their condition does
    not hold. Adds what they answered.

    A call is found by its tool, since answers may come in another order than they were asked for.
    """
    left = list(asked.answers)
    for at, step in enumerate(steps):
        if step.only_if is not None and not _holds(step.only_if, facts):
            continue
        if not step.calls:
            return at
        for call in step.calls:
            place = next((n for n, (tool, _) in enumerate(left) if tool == call.tool), None)
            if place is None:
                return at
            facts.by_name[call.name] = left.pop(place)[1]
    return len(steps)


def _holds(condition: str, facts: Facts) -> bool:
    try:
        return bool(filled(condition, facts))
    except MissingFact:
        return False


_WORDS_AT_ONCE: Final = 4


class ScriptedBackend:
    """Says and calls what a scenario has written. Nothing in it is remembered: where the scenario
    stands is read from the conversation, so that it goes on after a restart. What tools answered
    to earlier questions can be spoken of later.
    """

    is_scripted = True

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """A backend of a scenario's file. Raises `UsageError`."""
        return cls(load_scenario(path))

    @property
    def name(self) -> str:
        """The model's name."""
        return self.scenario.name

    async def aclose(self) -> None:
        """There is nothing to let go of."""

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        """The next step of the scenario."""
        step, facts = self._reached(user_turns(request.history))
        try:
            for piece in _pieces(step, facts, request):
                yield piece
        except MissingFact as error:
            raise BackendFailed(f"the scenario {self.name!r} cannot go on: {error}") from None

    def _reached(self, questions: Sequence[UserTurn]) -> tuple[ScriptedStep, Facts]:
        """The step that comes next, and all that was answered on the way to it."""
        facts, plain = Facts(), 0
        turn: ScriptedTurn | None = None
        done = 0
        for asked in questions:
            turn = self._turn(asked.text, plain)
            plain += turn is None or turn.when is None
            done = steps_done(turn.steps, asked, facts) if turn else 0
        if turn is None:
            raise BackendFailed(
                f"the scenario {self.name!r} has nothing for this: it is written for other "
                "questions, and this backend is scripted"
            )
        if done == len(turn.steps):
            raise BackendFailed(
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


def _pieces(step: ScriptedStep, facts: Facts, request: BackendRequest) -> list[BackendOutput]:
    pieces: list[BackendOutput] = []
    if step.think is not None:
        pieces.append(BackendReasoning(filled_text(step.think, facts)))
    if step.texts:
        pieces += _spoken(_first_possible(step.texts, facts))
    if step.answer is not None:
        pieces += _spoken(json.dumps(_first_answer(step, facts), ensure_ascii=False))
    offered = {tool.name for tool in request.tools}
    for call in step.calls or []:
        if call.tool not in offered:
            have = ", ".join(sorted(offered)) or "none"
            raise MissingFact(f"the request offers no tool {call.tool!r}; it offers {have}")
        pieces.append(ProposedCall(call.tool, _arguments(call.arguments, facts)))
    return pieces


def _arguments(arguments: dict[str, Any], facts: Facts) -> str:
    return json.dumps(filled(arguments, facts), ensure_ascii=False)


def _first_possible(texts: Sequence[str], facts: Facts) -> str:
    """The first text whose facts are all there. Raises `MissingFact` of the last."""
    for text in texts[:-1]:
        try:
            return filled_text(text, facts)
        except MissingFact:
            continue
    return filled_text(texts[-1], facts)


def _first_answer(step: ScriptedStep, facts: Facts) -> Any:
    if step.otherwise is None:
        return filled(step.answer, facts)
    try:
        return filled(step.answer, facts)
    except MissingFact:
        return filled(step.otherwise, facts)


def _spoken(text: str) -> list[BackendOutput]:
    """Text in pieces of a few words, as a model would give it."""
    words = text.split(" ")
    groups = [words[at : at + _WORDS_AT_ONCE] for at in range(0, len(words), _WORDS_AT_ONCE)]
    joined = [" ".join(group) for group in groups]
    return [*(BackendText(piece + " ") for piece in joined[:-1]), BackendText(joined[-1])]
