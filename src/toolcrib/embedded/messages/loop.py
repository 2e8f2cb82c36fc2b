"""The message loop: the backend proposes calls, server tools run, the backend continues."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from toolcrib.embedded.backend import (
    BackendMessage,
    BackendReasoning,
    BackendRequest,
    BackendText,
    BackendUsage,
    ProposedCall,
    Truncation,
)
from toolcrib.embedded.database import new_id
from toolcrib.embedded.messages.cited_text import SentenceWriter, StopSequences
from toolcrib.embedded.messages.writer import TextWriter, ThinkingWriter, usage
from toolcrib.embedded.responses.service import estimate
from toolcrib.errors import BackendFailed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from toolcrib.embedded.backend import BackendOutput, ModelBackend
    from toolcrib.embedded.messages.code_execution import MessageContainer
    from toolcrib.embedded.messages.conversation import MessageConversation
    from toolcrib.embedded.messages.request import MessageRequest
    from toolcrib.embedded.messages.tools import MessageTools
    from toolcrib.embedded.messages.writer import ContentWriter

MAX_STEPS: Final = 10
"""Backend requests of one message whose server calls are run. Then the message pauses, and the
client may continue it."""

MAX_UNKNOWN: Final = 4
"""Calls of tools that do not exist, or with arguments that are no JSON object."""

_COUNTED: Final = {"web_search": "web_search_requests", "web_fetch": "web_fetch_requests"}


@dataclass(slots=True)
class _StepProposal:
    calls: list[ProposedCall] = field(default_factory=list[ProposedCall])
    cut: Truncation | None = None
    stop_sequence: str | None = None


class MessageLoop:
    """Runs one message from the first backend request to its end."""

    def __init__(
        self,
        backend: ModelBackend,
        request: MessageRequest,
        writer: ContentWriter,
        conversation: MessageConversation,
        tools: MessageTools,
        container: MessageContainer,
    ) -> None:
        self._backend = backend
        self._request = request
        self._writer = writer
        self._conversation = conversation
        self._tools = tools
        self._container = container
        self._output = request.output
        self._has_called = False
        self._unknown = 0
        self._input_tokens: int | None = None
        self._output_tokens = 0
        self._reported_tokens = 0
        self._counts = dict.fromkeys(_COUNTED.values(), 0)

    async def run(self) -> None:
        """Run the loop and end the message. Raises `BackendFailed`."""
        for _ in range(MAX_STEPS):
            proposal = await self._propose()
            if proposal.stop_sequence is not None:
                return self._end("stop_sequence", proposal.stop_sequence)
            if proposal.cut is not None:
                is_short = proposal.cut.reason == "max_output_tokens"
                return self._end("max_tokens" if is_short else "refusal")
            if not proposal.calls:
                return self._end("end_turn")
            if not await self._carry_out(proposal.calls):
                return self._end("tool_use")
            if self._left() < 1:
                return self._end("max_tokens")
        return self._end("pause_turn")

    def _end(self, stop_reason: str, stop_sequence: str | None = None) -> None:
        started = self._writer.message["usage"]["input_tokens"]
        spent = started if self._input_tokens is None else self._input_tokens
        self._writer.end(
            stop_reason,
            usage(spent, self._output_tokens, self._counts),
            stop_sequence=stop_sequence,
            container=self._container.resource,
        )

    def _left(self) -> int:
        # An estimate does not end an answer.
        return (self._request.max_tokens or 1) - self._reported_tokens

    async def _propose(self) -> _StepProposal:
        proposal = _StepProposal()
        thinking = ThinkingWriter(self._writer, is_shown=self._request.shows_thinking)
        # Marks inside of a JSON document cannot become blocks.
        sources = {} if self._output.is_json else self._conversation.marks.by_mark
        text = SentenceWriter(TextWriter(self._writer), sources)
        stops = StopSequences(self._request.stop_sequences or ())
        said: list[str] = []
        reported: list[BackendUsage] = []
        pieces = cast("AsyncGenerator[BackendOutput]", self._backend.propose(self._ask()))
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    match piece:
                        case BackendReasoning():
                            thinking.think(piece.text)
                        case BackendText():
                            thinking.end()
                            said.append(stops.feed(piece.text))
                            text.feed(said[-1])
                        case ProposedCall():
                            proposal.calls.append(piece)
                        case BackendUsage():
                            reported.append(piece)
                        case Truncation():
                            proposal.cut = piece
                        case _:
                            assert_never(piece)
                    if stops.reached is not None:
                        break
        finally:
            # A client has already seen this text, also if the backend then failed.
            thinking.end()
            said.append(stops.end())
            text.feed(said[-1])
            text.end()
        proposal.stop_sequence = stops.reached
        self._count(reported, said, proposal.calls)
        if any(said):
            self._conversation.history.append(BackendMessage("assistant", "".join(said)))
        return proposal

    def _count(
        self, reported: list[BackendUsage], said: list[str], calls: list[ProposedCall]
    ) -> None:
        """Add what the backend reports, or else an estimate of what it has said."""
        if not reported:
            texts = [text for text in ("".join(said), *(call.arguments for call in calls)) if text]
            self._output_tokens += estimate(texts)
            return
        answered = sum(each.output_tokens for each in reported)
        self._output_tokens += answered
        self._reported_tokens += answered
        spent = sum(each.input_tokens for each in reported)
        self._input_tokens = (self._input_tokens or 0) + spent

    def _ask(self) -> BackendRequest:
        request = self._request
        return BackendRequest(
            model=request.model,
            history=self._conversation.history,
            instructions=request.instructions,
            tools=self._tools.backend_tools(has_called=self._has_called),
            tool_choice=self._tools.mode(has_called=self._has_called),
            is_parallel=self._tools.is_parallel,
            output=self._output,
            max_output_tokens=self._left(),
            temperature=request.temperature,
            top_p=request.top_p,
        )

    async def _carry_out(self, calls: list[ProposedCall]) -> bool:
        """Run the proposed calls; False if the client must answer some of them."""
        goes_on = True
        for call in calls:
            self._has_called = True
            if self._tools.is_client_tool(call.name):
                use = {"type": "tool_use", "id": new_id("toolu"), "name": call.name}
                self._writer.use(use, call.arguments if _object(call) is not None else "{}")
                goes_on = False
            else:
                await self._run_server(call)
        return goes_on

    async def _run_server(self, call: ProposedCall) -> None:
        found, arguments = self._tools.server_tool(call.name), _object(call)
        if found is None or arguments is None:
            self._refuse(call, is_known=found is not None)
            return
        tool, own_name = found
        use = tool.use(own_name)
        self._writer.use(use, json.dumps(arguments, ensure_ascii=False))
        result = await tool.run(own_name, arguments)
        self._writer.whole({**result, "tool_use_id": use["id"]})
        if use["name"] in _COUNTED and not _is_error(result):
            self._counts[_COUNTED[use["name"]]] += 1
        self._conversation.hear({**use, "input": arguments}, result)

    def _refuse(self, call: ProposedCall, *, is_known: bool) -> None:
        """Tell the backend alone that a call cannot be run. Raises `BackendFailed`."""
        self._unknown += 1
        if self._unknown > MAX_UNKNOWN:
            raise BackendFailed("the model keeps calling tools that do not exist")
        why = "the arguments are not a JSON object" if is_known else "there is no such tool"
        self._conversation.refuse(call.name, call.arguments, f"Error: {why}")


def _object(call: ProposedCall) -> Mapping[str, Any] | None:
    try:
        read = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], read) if isinstance(read, dict) else None


def _is_error(result: Mapping[str, Any]) -> bool:
    content = result["content"]
    return isinstance(content, dict) and cast(dict[str, Any], content)["type"].endswith("_error")
