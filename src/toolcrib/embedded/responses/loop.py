"""The loop: the brain proposes, hosted tools run, and the brain is asked again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from toolcrib.embedded.backend import (
    Answered,
    BrainFailed,
    Called,
    Cut,
    Proposed,
    Question,
    Said,
    Spent,
    Text,
    Thought,
)
from toolcrib.embedded.responses.citations import Citer, Sources
from toolcrib.embedded.responses.request import CreateResponse, read_format
from toolcrib.embedded.responses.resource import usage_of
from toolcrib.embedded.responses.run import Message, Thinking, ask_client
from toolcrib.embedded.tools.tool import Answer, ContainerFile, Paused, Source, WebSource

if TYPE_CHECKING:
    from toolcrib.embedded.backend import Brain
    from toolcrib.embedded.responses.conversation import Conversation
    from toolcrib.embedded.responses.run import Run
    from toolcrib.embedded.responses.tools import OpenTools

MOST_CALLS: Final = 64
"""Hosted calls of one response when the request sets no limit: a brain may go round in circles."""

MOST_REFUSED: Final = 4
"""How many calls beyond the limit are answered with a refusal before the response fails."""


@dataclass(slots=True)
class _Proposal:
    calls: list[Proposed] = field(default_factory=list[Proposed])
    cut: Cut | None = None


class Answering:
    """Makes one response."""

    def __init__(
        self,
        brain: Brain,
        asked: CreateResponse,
        run: Run,
        conversation: Conversation,
        tools: OpenTools,
        sources: Sources,
    ) -> None:
        self._brain = brain
        self._asked = asked
        self._run = run
        self._conversation = conversation
        self._tools = tools
        self._sources = sources
        self._output = read_format(asked.text).output
        self._unnamed: list[Source] = []
        self._calls_left = asked.max_tool_calls or MOST_CALLS
        self._has_called = False
        self._spent = (0, 0)

    async def go(self) -> tuple[str, dict[str, Any]]:
        """How the response ends: its status, and what changes with it."""
        for resumed in await self._tools.resume(self._run):
            self._hear(Proposed(resumed.name, resumed.arguments), resumed.answer)
        while True:
            try:
                proposal = await self._propose()
            except BrainFailed as error:
                fault = {"code": "server_error", "message": str(error)}
                return "failed", self._ending(error=fault)
            if proposal.cut is not None:
                details = {"reason": proposal.cut.reason}
                return "incomplete", self._ending(incomplete_details=details)
            if not proposal.calls or not await self._carry_out(proposal.calls):
                return "completed", self._ending()
            if self._calls_left < -MOST_REFUSED:
                told = "The model goes on calling tools beyond the limit of this response."
                return "failed", self._ending(error={"code": "server_error", "message": told})

    def _ending(self, **changes: Any) -> dict[str, Any]:
        return {"usage": usage_of(*self._spent), **changes}

    async def _propose(self) -> _Proposal:
        proposal, said = _Proposal(), list[str]()
        thinking, message = Thinking(self._run), Message(self._run, self._citer())
        status = "incomplete"
        try:
            async for piece in self._brain.propose(self._question()):
                match piece:
                    case Thought():
                        thinking.think(piece.text)
                    case Text():
                        thinking.end()
                        message.say(piece.text)
                        said.append(piece.text)
                    case Proposed():
                        proposal.calls.append(piece)
                    case Spent():
                        before, after = self._spent
                        self._spent = (before + piece.input_tokens, after + piece.output_tokens)
                    case Cut():
                        proposal.cut = piece
                    case _:
                        assert_never(piece)
            status = "incomplete" if proposal.cut else "completed"
        finally:
            # What was said before a brain failed or was stopped has been said.
            thinking.end()
            message.end(status)
        if said:
            self._conversation.turns.append(Said("assistant", "".join(said)))
        return proposal

    def _citer(self) -> Citer:
        return Citer(
            self._sources.by_mark, unnamed=tuple(self._unnamed), in_json=self._output.is_json
        )

    def _question(self) -> Question:
        asked = self._asked
        return Question(
            model=asked.model,
            turns=self._conversation.turns,
            instructions=asked.instructions,
            offers=self._tools.offers(has_called=self._has_called, may_run=self._calls_left > 0),
            choice=self._tools.choice(has_called=self._has_called),
            is_parallel=asked.parallel_tool_calls is not False,
            output=self._output,
            max_output_tokens=asked.max_output_tokens,
            temperature=asked.temperature,
            top_p=asked.top_p,
        )

    async def _carry_out(self, calls: list[Proposed]) -> bool:
        """Do what was proposed; False when the client has to go on."""
        goes_on = True
        for call in calls:
            self._has_called = True
            offer = self._tools.client_offer(call.name)
            if offer is not None:
                ask_client(self._run, call.name, call.arguments, is_freeform=offer.is_freeform)
                goes_on = False
            else:
                goes_on = await self._run_hosted(call) and goes_on
        return goes_on

    async def _run_hosted(self, call: Proposed) -> bool:
        self._calls_left -= 1
        runner, arguments = self._tools.runner(call.name), _object(call.arguments)
        if self._calls_left < 0:
            return self._refuse(call, "No more tool calls are allowed in this response.")
        if runner is None:
            return self._refuse(call, f"There is no tool {call.name[:80]!r}.")
        if arguments is None:
            return self._refuse(call, "The arguments are not a JSON object.")
        answer = await runner(arguments, self._run)
        if isinstance(answer, Paused):
            return False
        self._hear(call, answer)
        return True

    def _hear(self, call: Proposed, answer: Answer) -> None:
        marks = self._sources.add(answer.sources)
        marked = dict(zip(marks, answer.sources, strict=True))
        self._unnamed += [each for each in answer.sources if isinstance(each, ContainerFile)]
        text = answer.text + _listed(marked)
        self._run.answers[answer.item_id] = {
            "name": call.name,
            "arguments": call.arguments,
            "text": text,
            "value": answer.value,
            "marks": marks,
            "sources": {mark: asdict(source) for mark, source in marked.items()},
        }
        self._take(call, Answered(answer.item_id, call.name, text, answer.value, tuple(marks)))

    def _refuse(self, call: Proposed, why: str) -> bool:
        """Tell the brain what it may not do; there is no item of it."""
        call_id = f"refused_{len(self._conversation.turns)}"
        self._take(call, Answered(call_id, call.name, why))
        return True

    def _take(self, call: Proposed, answered: Answered) -> None:
        called = Called(answered.call_id, call.name, call.arguments)
        self._conversation.turns += [called, answered]


def _object(arguments: str) -> Mapping[str, Any] | None:
    try:
        read = json.loads(arguments or "{}")
    except ValueError:
        return None
    return cast(dict[str, Any], read) if isinstance(read, dict) else None


def _listed(marked: Mapping[str, Source]) -> str:
    """The sources, with the marks that cite them."""
    lines: list[str] = []
    for mark, source in marked.items():
        match source:
            case WebSource():
                lines.append(f"[{mark}] {source.title}: {source.url}")
            case ContainerFile():
                lines.append(f"file: sandbox:{source.path}")
            case _:
                lines.append(f"[{mark}] {source.filename}")
    return "\n\nSources:\n" + "\n".join(lines) if lines else ""
