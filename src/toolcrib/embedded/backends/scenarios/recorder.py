"""Records the answers of a backend as a scenario for a scripted backend.

Values in its text that came from the answers of tools become expressions.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.backend import (
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    ProposedCall,
    has_logprobs,
    reads_images,
)
from toolcrib.embedded.backends.scenarios.backend import UserTurn, steps_done, user_turns
from toolcrib.embedded.backends.scenarios.expressions import Fact, Facts, filled_text
from toolcrib.embedded.backends.scenarios.scenario import Scenario, read_scenario
from toolcrib.errors import BackendFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from toolcrib.embedded.backend import ModelBackend


SHORTEST: Final = 3
"""Shorter texts would match by chance."""

_KEY: Final = re.compile(r"[\w-]+")
_NUMBER: Final = re.compile(r"(?<![\w.])-?[0-9][0-9,]*(?:\.[0-9]+)?%?(?![\w])")
_MARK: Final = re.compile(r"\[(S[0-9]+)\]")
_MAX_PLACES: Final = 6


@dataclass(frozen=True, slots=True)
class FactValue:
    """A value in an answer, and the path to it."""

    path: str
    value: Any


@dataclass(slots=True)
class FactTracer:
    """Replaces values by expressions for the facts that they came from.

    `untraced` collects the numbers that are neither a fact nor in `user_text`.
    """

    facts: Facts
    user_text: str
    untraced: list[str] = field(default_factory=list[str])

    def value(self, value: Any) -> Any:
        """A JSON value with expressions in place of facts."""
        if isinstance(value, str):
            return self._exact(value) or self.text(value)
        if isinstance(value, Mapping):
            members = cast(Mapping[str, Any], value)
            return {key: self.value(member) for key, member in members.items()}
        if isinstance(value, Sequence):
            members = cast(Sequence[Any], value)
            whole = self._exact(list(members)) if members else None
            return whole or [self.value(member) for member in members]
        if isinstance(value, bool) or value is None:
            return value
        return value if str(value) in self.user_text else self._exact(value) or self._number(value)

    def text(self, text: str) -> str:
        """A text with expressions in place of the facts within it."""
        pieces: list[str] = []
        last = 0
        for start, end, expression in self._found(text):
            if start >= last:
                pieces += [_escaped(text[last:start]), f"{{{{ {expression} }}}}"]
                last = end
        return "".join([*pieces, _escaped(text[last:])])

    def _exact(self, value: Any) -> str | None:
        """The expression for a value that equals a fact."""
        if isinstance(value, str) and len(value) < SHORTEST:
            return None
        for leaf in self._leaves():
            if type(leaf.value) is type(value) and leaf.value == value:
                return f"{{{{ {leaf.path} }}}}"
        return None

    def _number(self, value: Any) -> Any:
        rounded = self._shaped(str(value))
        if rounded is None:
            self.untraced.append(str(value))
            return value
        return f"{{{{ {rounded} }}}}"

    def _found(self, text: str) -> list[tuple[int, int, str]]:
        """The places of values: the longer of two that overlap, and of numbers those that are
        not the user's own.
        """
        places = [*self._marks(text), *self._texts(text), *self._numbers(text)]
        longest: list[tuple[int, int, str]] = []
        for place in sorted(places, key=lambda span: (span[0] - span[1], span[0])):
            if all(place[1] <= other[0] or place[0] >= other[1] for other in longest):
                longest.append(place)
        covered = [(start, end) for start, end, _ in longest]
        self._note_untraced(text, covered)
        return sorted(longest)

    def _note_untraced(self, text: str, covered: Sequence[tuple[int, int]]) -> None:
        for number in _NUMBER.finditer(text):
            is_covered = any(a <= number.start() and number.end() <= b for a, b in covered)
            if not is_covered and number[0] not in self.user_text:
                self.untraced.append(number[0])

    def _marks(self, text: str) -> Iterator[tuple[int, int, str]]:
        for mark in _MARK.finditer(text):
            for name, fact in self.facts.by_name.items():
                if mark[1] in fact.marks:
                    at = list(fact.marks).index(mark[1])
                    yield mark.start(), mark.end(), f"cite {name} {at}"

    def _texts(self, text: str) -> Iterator[tuple[int, int, str]]:
        for leaf in self._leaves():
            if isinstance(leaf.value, str) and len(leaf.value.strip()) >= SHORTEST:
                pattern = rf"(?<!\w){re.escape(leaf.value)}(?!\w)"
                for match in re.finditer(pattern, text):
                    yield match.start(), match.end(), leaf.path

    def _numbers(self, text: str) -> Iterator[tuple[int, int, str]]:
        for number in _NUMBER.finditer(text):
            if number[0] in self.user_text:
                continue
            expression = self._shaped(number[0])
            if expression is not None:
                yield number.start(), number.end(), expression

    def _shaped(self, shown: str) -> str | None:
        """The expression, with a filter if needed, that prints a number as it was written."""
        places = min(len(shown.rstrip("%").partition(".")[2]), _MAX_PLACES)
        for shape in ("", f" | round {places}", f" | group {places}", f" | percent {places}"):
            for leaf in self._leaves():
                if isinstance(leaf.value, int | float) and not isinstance(leaf.value, bool):
                    expression = f"{leaf.path}{shape}"
                    if filled_text(f"{{{{ {expression} }}}}", self.facts) == shown:
                        return expression
        return None

    def _leaves(self) -> Iterator[FactValue]:
        """The values of all facts, newest first."""
        for name, fact in reversed(self.facts.by_name.items()):
            yield from _within(name, fact.value)
            yield from _as_text(name, fact)


def _as_text(name: str, fact: Fact) -> Iterator[FactValue]:
    if fact.text:
        yield FactValue(f"{name}.text", fact.text)
        first = fact.text.strip().partition("\n")[0]
        if first != fact.text:
            yield FactValue(f"{name}.text | first_line", first)


def _within(path: str, value: Any) -> Iterator[FactValue]:
    if value is not None:
        yield FactValue(path, value)
    for key, member in _members(value):
        # A path cannot name such a key.
        if _KEY.fullmatch(key):
            yield from _within(f"{path}.{key}", member)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from cast(Mapping[str, Any], value).items()
    elif isinstance(value, list):
        for at, member in enumerate(cast(list[Any], value)):
            yield str(at), member


def _escaped(text: str) -> str:
    return text.replace("{{", '{{ "{{" }}')


_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
Json = dict[str, Any]


class ScenarioRecorder:
    """A backend that forwards to another one and records its answers.

    Values from the answers of tools become expressions, so that the scenario repeats the answers
    of its own run. Numbers that came neither from a tool nor from the user are in `untraced`:
    the scenario has them as they were. One recorder takes one conversation.
    """

    is_scripted = False

    def __init__(self, backend: ModelBackend) -> None:
        self._backend = backend
        self._first: str | None = None
        self._turns: list[list[Json]] = []
        self.untraced: list[str] = []

    @property
    def name(self) -> str:
        """The name of the recorded backend."""
        return self._backend.name

    @property
    def reads_images(self) -> bool:
        """Whether the recorded backend reads images."""
        return reads_images(self._backend)

    @property
    def has_logprobs(self) -> bool:
        """Whether the recorded backend reports probabilities, which are not recorded."""
        return has_logprobs(self._backend)

    async def aclose(self) -> None:
        """Close the recorded backend."""
        await self._backend.aclose()

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        """Forward a request. A failed answer is not recorded."""
        questions = user_turns(request.history)
        self._begin(questions)
        pieces: list[BackendOutput] = []
        proposal = cast("AsyncGenerator[BackendOutput]", self._backend.propose(request))
        async with aclosing(proposal):
            async for piece in proposal:
                pieces.append(piece)
                yield piece
        self._write_down(questions, pieces, is_json=request.output.is_json)

    def scenario(self, name: str | None = None) -> Scenario:
        """The recording as a scenario."""
        return read_scenario(self.text(name), "the recording")

    def text(self, name: str | None = None) -> str:
        """The recording as YAML. Raises `UsageError` if nothing was recorded."""
        import yaml

        turns = [{"steps": steps} for steps in self._turns]
        if not all(self._turns) or not turns:
            raise UsageError("there is nothing recorded, or a question without an answer")
        about = f"Recorded from {self._backend.name}."
        document = {"name": name or self._backend.name, "about": about, "turns": turns}
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)

    def save(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        """Write the scenario into a file."""
        Path(path).write_text(self.text(name), "utf-8")

    def _begin(self, questions: Sequence[UserTurn]) -> None:
        if self._first is None:
            self._first = questions[0].text
        is_next = len(questions) <= len(self._turns) + 1
        if questions[0].text != self._first or not is_next:
            raise BackendFailed(
                "a recorder records one conversation; use another recorder for this one"
            )

    def _write_down(
        self, questions: Sequence[UserTurn], pieces: Sequence[BackendOutput], *, is_json: bool
    ) -> None:
        # A request may be repeated: the new answer replaces the earlier one.
        facts, done = self._facts(questions)
        self._turns = [*self._turns[: len(questions) - 1], self._steps(len(questions) - 1)[:done]]
        tracer = FactTracer(facts, "\n".join(question.text for question in questions))
        self._turns[-1].append(self._step(tracer, pieces, is_json=is_json))
        self.untraced += tracer.untraced

    def _facts(self, questions: Sequence[UserTurn]) -> tuple[Facts, int]:
        facts, done = Facts(), 0
        for at, question in enumerate(questions):
            steps = self._steps(at)
            done = 0
            if steps:
                turns = [{"steps": steps}]
                known = read_scenario(json.dumps({"name": "so far", "turns": turns})).turns[0]
                done = steps_done(known.steps, question, facts)
        return facts, done

    def _steps(self, at: int) -> list[Json]:
        return self._turns[at] if at < len(self._turns) else []

    def _step(self, tracer: FactTracer, pieces: Sequence[BackendOutput], *, is_json: bool) -> Json:
        step: Json = {}
        thought = "".join(piece.text for piece in pieces if isinstance(piece, BackendReasoning))
        text = "".join(piece.text for piece in pieces if isinstance(piece, BackendText))
        calls = [piece for piece in pieces if isinstance(piece, ProposedCall)]
        if thought:
            step["think"] = tracer.text(thought)
        if is_json and text and (value := _parsed(text)) is not None:
            step["answer"] = tracer.value(value)
        elif text or not calls:
            step["say"] = tracer.text(text)
        if calls:
            step["calls"] = self._calls(tracer, calls)
        return step

    def _calls(self, tracer: FactTracer, calls: Sequence[ProposedCall]) -> list[Json]:
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
