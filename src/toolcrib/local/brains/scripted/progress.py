"""Where a scenario stands, read from the conversation alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from toolcrib.local.brain import Answered, Called, Said, Turn
from toolcrib.local.brains.scripted.expressions import Fact, Facts, Unanswered, filled
from toolcrib.local.brains.scripted.scenario import Step


@dataclass(frozen=True, slots=True)
class Asked:
    """Something that the user said, and the tools' answers until the user spoke again, in the
    order in which the calls were made.
    """

    text: str
    answers: list[tuple[str, Fact]] = field(default_factory=list[tuple[str, Fact]])


def asked_in(turns: Sequence[Turn]) -> list[Asked]:
    """All that the user asked; at least one."""
    answers = {each.call_id: each for each in turns if isinstance(each, Answered)}
    found: list[Asked] = []
    for turn in turns:
        if isinstance(turn, Said) and turn.role == "user":
            found.append(Asked(turn.text))
        elif isinstance(turn, Called) and (answer := answers.get(turn.call_id)):
            found = found or [Asked("")]
            fact = Fact(answer.text, answer.value, answer.marks)
            found[-1].answers.append((answer.name, fact))
    return found or [Asked("")]


def steps_done(steps: Sequence[Step], asked: Asked, facts: Facts) -> int:
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
    except Unanswered:
        return False
