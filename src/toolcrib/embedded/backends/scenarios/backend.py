"""The scripted backend: finds the next step of a scenario from the conversation alone."""

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
from toolcrib.embedded.backends.scenarios.expressions import (
    Fact,
    Facts,
    MissingFact,
    filled,
    filled_text,
)
from toolcrib.embedded.backends.scenarios.scenario import (
    Scenario,
    ScriptedStep,
    ScriptedTurn,
    load_scenario,
)
from toolcrib.errors import BackendFailed


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A message of the user, and the answers of the calls that follow it, in call order."""

    text: str
    answers: list[tuple[str, Fact]] = field(default_factory=list[tuple[str, Fact]])


def user_turns(turns: Sequence[BackendInput]) -> list[UserTurn]:
    """Split a history into the turns of the user; at least one."""
    answers = {turn.call_id: turn for turn in turns if isinstance(turn, BackendCallResult)}
    questions: list[UserTurn] = []
    for turn in turns:
        if isinstance(turn, BackendMessage) and turn.role == "user":
            questions.append(UserTurn(turn.text))
        elif isinstance(turn, BackendCall) and (answer := answers.get(turn.call_id)):
            questions = questions or [UserTurn("")]
            fact = Fact(answer.text, answer.value, answer.marks)
            questions[-1].answers.append((answer.name, fact))
    return questions or [UserTurn("")]


def steps_done(steps: Sequence[ScriptedStep], turn: UserTurn, facts: Facts) -> int:
    """Count the steps that are done: their calls were answered, or their condition is false.

    Adds the answers to `facts`. A call is matched by its tool, since answers may arrive in any
    order.
    """
    left = list(turn.answers)
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
    """Answers with the steps of a scenario.

    It has no state: the current step follows from the conversation, so a scenario continues after
    a restart. Answers of tools in earlier turns stay available as facts.
    """

    is_scripted = True

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Read a scenario from a file. Raises `UsageError`."""
        return cls(load_scenario(path))

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self.scenario.name

    @property
    def reads_images(self) -> bool:
        """Whether the scenario is written for images."""
        return self.scenario.reads_images

    async def aclose(self) -> None:
        """Nothing to release."""

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        """Answer with the next step of the scenario."""
        step, facts = self._reached(user_turns(request.history))
        try:
            for piece in _pieces(step, facts, request):
                yield piece
        except MissingFact as error:
            raise BackendFailed(f"the scenario {self.name!r} cannot continue: {error}") from None

    def _reached(self, questions: Sequence[UserTurn]) -> tuple[ScriptedStep, Facts]:
        """The next step, and the facts of all calls before it."""
        facts, plain = Facts(), 0
        turn: ScriptedTurn | None = None
        done = 0
        for question in questions:
            turn = self._turn(question.text, plain)
            plain += turn is None or turn.when is None
            done = steps_done(turn.steps, question, facts) if turn else 0
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

    def _turn(self, text: str, plain_before: int) -> ScriptedTurn | None:
        """The scripted turn for a message, by its words or by its position."""
        for turn in self.scenario.turns:
            if turn.when is not None and turn.when.casefold() in text.casefold():
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
    """The first text without a missing fact. Raises the `MissingFact` of the last one."""
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
    """Split text into chunks of a few words, as a model streams it."""
    words = text.split(" ")
    groups = [words[at : at + _WORDS_AT_ONCE] for at in range(0, len(words), _WORDS_AT_ONCE)]
    joined = [" ".join(group) for group in groups]
    return [*(BackendText(piece + " ") for piece in joined[:-1]), BackendText(joined[-1])]
