"""The response loop: the backend proposes calls, hosted tools run, the backend continues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from toolcrib.embedded.backend import (
    BackendCall,
    BackendCallResult,
    BackendMessage,
    BackendReasoning,
    BackendRequest,
    BackendText,
    BackendUsage,
    ProposedCall,
    Truncation,
)
from toolcrib.embedded.responses.citations import CitationSources, CitationWriter
from toolcrib.embedded.responses.client_tools import write_client_call
from toolcrib.embedded.responses.request import ResponseRequest, read_format, usage_resource
from toolcrib.embedded.responses.writer import MessageWriter, ReasoningWriter
from toolcrib.embedded.tools.tool import (
    CitationSource,
    ContainerFileSource,
    PageSource,
    ToolAnswer,
    ToolPause,
)
from toolcrib.errors import BackendFailed

if TYPE_CHECKING:
    from toolcrib.embedded.backend import ModelBackend
    from toolcrib.embedded.responses.client_tools import RequestTool
    from toolcrib.embedded.responses.conversation import ResponseConversation
    from toolcrib.embedded.responses.tools import OpenTools
    from toolcrib.embedded.responses.writer import ResponseWriter

MAX_CALLS: Final = 64
"""Hosted calls of one response if the request sets no limit: a backend may loop."""

MAX_REFUSALS: Final = 4
"""Calls beyond the limit that are refused before the response fails."""


@dataclass(slots=True)
class _Proposal:
    calls: list[ProposedCall] = field(default_factory=list[ProposedCall])
    cut: Truncation | None = None


class ResponseLoop:
    """Runs one response from the first backend request to its last state."""

    def __init__(
        self,
        backend: ModelBackend,
        request: ResponseRequest,
        writer: ResponseWriter,
        conversation: ResponseConversation,
        tools: OpenTools,
        sources: CitationSources,
    ) -> None:
        self._backend = backend
        self._request = request
        self._writer = writer
        self._conversation = conversation
        self._tools = tools
        self._sources = sources
        self._output = read_format(request.text).output
        self._unnamed: list[CitationSource] = []
        self._calls_left = request.max_tool_calls or MAX_CALLS
        self._has_called = False
        self._spent = (0, 0)

    async def run(self) -> tuple[str, dict[str, Any]]:
        """Run the loop. Returns the last status, and the fields that change with it."""
        for resumed in await self._tools.resume(self._writer):
            self._hear(ProposedCall(resumed.name, resumed.arguments), resumed.answer)
        while True:
            try:
                proposal = await self._propose()
            except BackendFailed as error:
                fault = {"code": "server_error", "message": str(error)}
                return "failed", self._ending(error=fault)
            if proposal.cut is not None:
                details = {"reason": proposal.cut.reason}
                return "incomplete", self._ending(incomplete_details=details)
            if not proposal.calls or not await self._carry_out(proposal.calls):
                return "completed", self._ending()
            if self._calls_left < -MAX_REFUSALS:
                message = "The model keeps calling tools beyond the limit of this response."
                return "failed", self._ending(error={"code": "server_error", "message": message})

    def _ending(self, **changes: Any) -> dict[str, Any]:
        return {"usage": usage_resource(*self._spent), **changes}

    async def _propose(self) -> _Proposal:
        proposal, texts = _Proposal(), list[str]()
        thinking, message = (
            ReasoningWriter(self._writer),
            MessageWriter(self._writer, self._citer()),
        )
        status = "incomplete"
        try:
            async for piece in self._backend.propose(self._backend_request()):
                match piece:
                    case BackendReasoning():
                        thinking.think(piece.text)
                    case BackendText():
                        thinking.end()
                        message.say(piece.text, piece.logprobs)
                        texts.append(piece.text)
                    case ProposedCall():
                        proposal.calls.append(piece)
                    case BackendUsage():
                        before, after = self._spent
                        self._spent = (before + piece.input_tokens, after + piece.output_tokens)
                    case Truncation():
                        proposal.cut = piece
                    case _:
                        assert_never(piece)
            status = "incomplete" if proposal.cut else "completed"
        finally:
            # A client has already seen this text, also if the backend then failed or was cancelled.
            thinking.end()
            message.end(status)
        if texts and self._request.logprob_count is not None and not message.has_logprobs:
            self._writer.warn("the model reported no token probabilities")
        if texts:
            self._conversation.history.append(BackendMessage("assistant", "".join(texts)))
        return proposal

    def _citer(self) -> CitationWriter:
        return CitationWriter(
            self._sources.by_mark, unnamed=tuple(self._unnamed), in_json=self._output.is_json
        )

    def _backend_request(self) -> BackendRequest:
        request = self._request
        return BackendRequest(
            model=self._backend.name,
            history=self._conversation.history,
            instructions=request.instructions,
            tools=self._tools.backend_tools(
                has_called=self._has_called, may_run=self._calls_left > 0
            ),
            tool_choice=self._tools.choice(has_called=self._has_called),
            is_parallel=request.parallel_tool_calls is not False,
            output=self._output,
            max_output_tokens=request.max_output_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            top_logprobs=request.logprob_count,
        )

    async def _carry_out(self, calls: list[ProposedCall]) -> bool:
        """Run the proposed calls; False if the client must answer some of them."""
        goes_on = True
        for call in calls:
            self._has_called = True
            tool = self._tools.client_tool(call.name)
            if tool is not None:
                goes_on = self._pass_on(call, tool) and goes_on
            else:
                goes_on = await self._run_hosted(call) and goes_on
        return goes_on

    def _pass_on(self, call: ProposedCall, tool: RequestTool) -> bool:
        """Write a call for the client; True if the backend has to propose another one instead."""
        fault = write_client_call(self._writer, tool, call.arguments)
        if fault is None:
            return False
        self._calls_left -= 1
        return self._refuse(call, fault)

    async def _run_hosted(self, call: ProposedCall) -> bool:
        self._calls_left -= 1
        runner, arguments = self._tools.runner(call.name), _object(call.arguments)
        if self._calls_left < 0:
            return self._refuse(call, "No more tool calls are allowed in this response.")
        if runner is None:
            return self._refuse(call, f"There is no tool {call.name[:80]!r}.")
        if arguments is None:
            return self._refuse(call, "The arguments are not a JSON object.")
        answer = await runner(arguments, self._writer)
        if isinstance(answer, ToolPause):
            return False
        self._hear(call, answer)
        return True

    def _hear(self, call: ProposedCall, answer: ToolAnswer) -> None:
        marks = self._sources.add(answer.sources)
        marked = dict(zip(marks, answer.sources, strict=True))
        self._unnamed += [
            source for source in answer.sources if isinstance(source, ContainerFileSource)
        ]
        text = answer.text + _listed(marked)
        self._writer.answers[answer.item_id] = {
            "name": call.name,
            "arguments": call.arguments,
            "text": text,
            "value": answer.value,
            "marks": marks,
            "sources": {mark: asdict(source) for mark, source in marked.items()},
        }
        self._take(
            call, BackendCallResult(answer.item_id, call.name, text, answer.value, tuple(marks))
        )

    def _refuse(self, call: ProposedCall, why: str) -> bool:
        """Answer a call with a refusal that only the backend sees."""
        call_id = f"refused_{len(self._conversation.history)}"
        self._take(call, BackendCallResult(call_id, call.name, why))
        return True

    def _take(self, call: ProposedCall, answered: BackendCallResult) -> None:
        called = BackendCall(answered.call_id, call.name, call.arguments)
        self._conversation.history += [called, answered]


def _object(arguments: str) -> Mapping[str, Any] | None:
    try:
        read = json.loads(arguments or "{}")
    except ValueError:
        return None
    return cast(dict[str, Any], read) if isinstance(read, dict) else None


def _listed(marked: Mapping[str, CitationSource]) -> str:
    """List the sources with the marks that cite them."""
    lines: list[str] = []
    for mark, source in marked.items():
        match source:
            case PageSource():
                lines.append(f"[{mark}] {source.title}: {source.url}")
            case ContainerFileSource():
                lines.append(f"file: sandbox:{source.path}")
            case _:
                lines.append(f"[{mark}] {source.filename}")
    return "\n\nSources:\n" + "\n".join(lines) if lines else ""
