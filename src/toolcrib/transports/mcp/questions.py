"""Questions of calls to the person at an MCP client.

A client of the handshake protocol gets a request. To one of the stateless protocol the form is the
result; the call goes on running, and the client's next request brings the answer to it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp_types import (
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.approval.decision import Actor
from toolcrib.approval.question import QuestionResponse
from toolcrib.transports.mcp.client_sessions import call_fingerprint
from toolcrib.transports.mcp.request import McpRequest, response_type
from toolcrib.transports.question_form import QuestionForm, form_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams, InputRequest, InputResponse

    from toolcrib.approval.question import Question, Responder
    from toolcrib.runtime.messages import CallResult
    from toolcrib.transports.mcp.client_sessions import ClientSession

logger = logging.getLogger(__name__)

_KEY: Final = "question"
_STATE: Final = "toolcrib-question"
_FORWARDED: Final = "req_"
_RESPONSES: Final[dict[type, tuple[type, ...]]] = {
    CreateMessageRequest: (CreateMessageResult, CreateMessageResultWithTools),
    ElicitRequest: (ElicitResult,),
    ListRootsRequest: (ListRootsResult,),
}


def can_show_forms(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client can show a form to a person."""
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    # A client that names no mode can show forms: modes were added to the protocol later.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def can_answer(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client can answer anything that a running call may ask."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and (
        capabilities.elicitation is not None
        or capabilities.sampling is not None
        or capabilities.roots is not None
    )


def is_stateless(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client speaks the stateless protocol."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


@dataclass(frozen=True, slots=True)
class NobodyThere:
    """Stands for a client that cannot show a question: nobody can be asked."""

    reason: str

    async def respond(self, question: Question) -> QuestionResponse | None:
        """Say that nobody can be asked."""
        return QuestionResponse("nobody", reason=self.reason)


NO_FORMS: Final = NobodyThere("the MCP client has no elicitation capability")


@dataclass(frozen=True, slots=True)
class ElicitedAnswers:
    """Asks with a request to the client, over the connection of the call."""

    context: ServerRequestContext[Any, Any]
    client: ClientSession

    async def respond(self, question: Question) -> QuestionResponse | None:
        """Send the form, and wait for the person."""
        if question.is_secret:
            return _NO_SECRETS
        form, ctx = form_of(question), self.context
        try:
            answer = await ctx.session.elicit_form(form.text, form.schema, ctx.request_id)
        except (MCPError, ValueError) as error:
            logger.warning("the client did not answer %s: %s", question.question_id, error)
            return QuestionResponse("nobody", reason="the MCP client did not answer")
        return response_in(answer, form, self.client)


_NO_SECRETS: Final = QuestionResponse("nobody", reason="an MCP client must not ask for secrets")


def response_in(
    answer: ElicitResult, form: QuestionForm, client: ClientSession
) -> QuestionResponse:
    """What a filled, refused or closed form says."""
    actor = Actor("person", client.who.name)
    match answer.action:
        case "accept":
            return QuestionResponse("answer", form.value_of(answer.content), actor=actor)
        case "decline":
            return QuestionResponse("decline", actor=actor)
        case "cancel":
            return QuestionResponse("cancel", actor=actor)


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """The question that a form showed, and the call that it is of."""

    call_id: str
    question_id: str

    def to_state(self) -> str:
        """The state that the client carries between two requests; the SDK seals it."""
        return f"{_STATE} {self.question_id} {self.call_id}"


def question_in(state: str | None) -> ShownQuestion | None:
    """The question that the client was shown before; None without a state of this server."""
    kind, *rest = (state or "").split(" ", 2)
    if kind != _STATE or len(rest) != 2:
        return None
    question_id, call_id = rest
    return ShownQuestion(call_id, question_id)


class HeldCall:
    """A running call whose client comes back with answers. It is the responder of the call."""

    def __init__(
        self, client: ClientSession, call_id: str, fingerprint: str, request: McpRequest
    ) -> None:
        self.client = client
        self.latest = request
        """The request that the client waits for now."""
        self.call_id = call_id
        self.fingerprint = fingerprint
        """Of the tool and the arguments: the client comes back with the same."""
        self.result: asyncio.Future[CallResult] | None = None
        self._open: dict[str, tuple[InputRequest, asyncio.Future[InputResponse]]] = {}
        self._is_asked = asyncio.Event()

    async def respond(self, question: Question) -> QuestionResponse | None:
        """Keep the form until the client has brought its answer."""
        if question.is_secret:
            return _NO_SECRETS
        form = form_of(question)
        params = ElicitRequestFormParams(message=form.text, requested_schema=form.schema)
        answer = await self._ask(question.question_id, ElicitRequest(params=params))
        assert isinstance(answer, ElicitResult), "the type of a response was checked"
        return response_in(answer, form, self.client)

    async def ask(self, request: InputRequest) -> InputResponse:
        """Keep a request of a mounted server until the client has brought its response."""
        return await self._ask(f"{_FORWARDED}{token_hex(8)}", request)

    async def _ask(self, request_id: str, request: InputRequest) -> InputResponse:
        answer: asyncio.Future[InputResponse] = asyncio.get_running_loop().create_future()
        self._open[request_id] = request, answer
        self._is_asked.set()
        try:
            return await answer
        finally:
            self._open.pop(request_id, None)

    @property
    def forwarded(self) -> dict[str, InputRequest]:
        """The open requests of mounted servers; those of the call itself are in its questions."""
        return {
            request_id: request
            for request_id, (request, answer) in self._open.items()
            if request_id.startswith(_FORWARDED) and not answer.done()
        }

    def take(self, request_id: str, response: object) -> None:
        """Give the call a response, once; what is none to the request leaves it open."""
        entry = self._open.get(request_id)
        if entry is None or entry[1].done():
            return
        if isinstance(response, _RESPONSES[type(entry[0])]):
            entry[1].set_result(cast("InputResponse", response))

    async def advance(self) -> CallResult | InputRequiredResult:
        """Wait until the call ends or asks."""
        assert self.result is not None, "the call was begun"
        while True:
            open_requests = [
                (request_id, request)
                for request_id, (request, answer) in self._open.items()
                if not answer.done()
            ]
            if open_requests and not self.result.done():
                return self._shown(*open_requests[0])
            self._is_asked.clear()
            asked = asyncio.ensure_future(self._is_asked.wait())
            try:
                await asyncio.wait((self.result, asked), return_when=asyncio.FIRST_COMPLETED)
            finally:
                asked.cancel()
            if self.result.done():
                return self.result.result()

    def take_forwarded(self, request_id: str, response: object) -> None:
        """Give the call the response to a request of a mounted server, as it came."""
        entry = self._open.get(request_id)
        if entry is not None and request_id.startswith(_FORWARDED):
            read = response_type(entry[0]).model_validate(response)
            self.take(request_id, read)

    async def ended_within(self, seconds: float) -> CallResult | None:
        """The result if the call ends in this time, and before it asks; None otherwise."""
        assert self.result is not None, "the call was begun"
        asked = asyncio.ensure_future(self._is_asked.wait())
        try:
            await asyncio.wait(
                (self.result, asked), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            asked.cancel()
        return self.result.result() if self.result.done() else None

    def _shown(self, request_id: str, request: InputRequest) -> InputRequiredResult:
        return InputRequiredResult(
            input_requests={_KEY: request},
            request_state=ShownQuestion(self.call_id, request_id).to_state(),
        )


class HeldCalls:
    """The running calls of stateless clients, by session and call."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], HeldCall] = {}

    def begin(self, held: HeldCall, result: asyncio.Future[CallResult]) -> None:
        """Hold the call until it is over."""
        held.result = result
        key = held.client.session_id, held.call_id
        self._held[key] = held

        def ended(done: asyncio.Future[CallResult]) -> None:
            self._held.pop(key, None)
            if not done.cancelled():
                # Its client may never come back for what came of it.
                done.exception()

        result.add_done_callback(ended)

    def answered(
        self, client: ClientSession, shown: ShownQuestion, params: CallToolRequestParams
    ) -> HeldCall | None:
        """The call that a client comes back to, with the answer given to it; None when it is over,
        or was another principal's or another request.
        """
        held = self._held.get((client.session_id, shown.call_id))
        if held is None or held.client.who.name != client.who.name:
            return None
        if held.fingerprint != call_fingerprint(params.name, params.arguments or {}):
            return None
        held.take(shown.question_id, (params.input_responses or {}).get(_KEY))
        return held


def responder_for(ctx: ServerRequestContext[Any, Any], client: ClientSession) -> Responder:
    """Who answers questions of a call in a request of the handshake protocol, or of a client that
    cannot show any.
    """
    return ElicitedAnswers(ctx, client) if can_show_forms(ctx) else NO_FORMS
