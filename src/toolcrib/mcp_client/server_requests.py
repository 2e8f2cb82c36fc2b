"""What a mounted server asks of its client, forwarded to the client whose call runs there.

Each request is decided by the terms of the mount, recorded in the ledger of the call, and refused
with a reason where the client cannot answer it.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib.errors import InvalidEvent, InvalidTool, QuestionUnanswered, UsageError
from toolcrib.mcp_client.request_terms import NO_REQUESTS, RequestTerms
from toolcrib.mcp_client.running_calls import RunningCalls
from toolcrib.tools.redaction import Scrubber

if TYPE_CHECKING:
    import mcp_types

    from toolcrib.mcp_client.calling_client import CallingClient
    from toolcrib.mcp_client.running_calls import AskingCall

_ALLOW: Final = "allow"
_MAX_SHOWN_CHARS: Final = 4_000
_MAX_RECORDED_BYTES: Final = 16_000
_MAX_LOG_BYTES: Final = 64_000
_MAX_VISITS: Final = 100


class ServerRequests:
    """Answers the requests of one connection, and passes on its log messages."""

    def __init__(
        self, server: str, terms: RequestTerms = NO_REQUESTS, scrubber: Scrubber | None = None
    ) -> None:
        self.calls = RunningCalls()
        self.server = server
        self.terms = terms
        self._scrubber = scrubber or Scrubber([])
        self._visits: dict[str, CallingClient] = {}
        """The clients that were sent to an address, by the id of the request."""

    async def sample(self, context: Any, params: mcp_types.CreateMessageRequestParams) -> Any:
        """The answer of the model of the client."""
        import mcp_types

        call = self.calls.asking()
        needed = "sampling" if params.tools is None else "sampling.tools"
        if call is None:
            return self.refuse(None, "the request for a model belongs to no call that is known")
        if call.client is None or not call.client.can(needed):
            return self.refuse(call, f"the client of the call has no capability {needed}")
        if self.terms.sampling == "ask":
            try:
                answer = await call.ask(_sampling_text(params), choices=(_ALLOW, "refuse"))
            except (QuestionUnanswered, InvalidTool, UsageError) as error:
                return self.refuse(call, f"a person has to agree first: {error}", "sampling")
            if answer != _ALLOW:
                return self.refuse(call, "a person refused the use of the model", "sampling")
        return await self.forward(call, mcp_types.CreateMessageRequest(params=params))

    async def list_roots(self, context: Any) -> Any:
        """The roots of the client, else those of the configuration."""
        import mcp_types

        call = self.calls.asking()
        client = None if call is None else call.client
        is_shared = self.terms.shares_roots and client is not None and client.can("roots")
        if call is not None and is_shared:
            return await self.forward(call, mcp_types.ListRootsRequest())
        roots = [mcp_types.Root.model_validate({"uri": uri}) for uri in self.terms.roots]
        return mcp_types.ListRootsResult(roots=roots)

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Pass a log message on to the client that it is for, without secrets."""
        client = self.calls.listener()
        if client is None:
            return
        data: Any = self._scrubber.scrub(params.data)
        size = len(to_json(data))
        if size > _MAX_LOG_BYTES:
            data = f"[a log message of {size} bytes was left out]"
        await client.log(params.level, data, params.logger)

    def expect_visit(self, call: AskingCall, elicitation_id: str) -> None:
        """Pass on to the client of a call that its visit to an address is over."""
        if call.client is not None:
            self._visits[elicitation_id] = call.client
            while len(self._visits) > _MAX_VISITS:
                del self._visits[next(iter(self._visits))]

    async def complete(self, notification: mcp_types.ElicitCompleteNotification) -> None:
        """Tell the client that was sent to an address that the visit is over."""
        client = self._visits.pop(notification.params.elicitation_id, None)
        if client is not None:
            await client.notify(notification)

    async def forward(self, call: AskingCall, request: mcp_types.InputRequest) -> Any:
        """The response of the client of a call, recorded with the digests of both."""
        from mcp import MCPError

        assert call.client is not None, "the client was looked at"
        facts: dict[str, Any] = {"request_digest": _digest(_plain(request))}
        try:
            response = await call.client.forward(request)
        except MCPError as error:
            text = f"the client did not answer {request.method}: {error.message}"
            self._record(call, request.method, {**facts, "error": error.message})
            return self.refuse(call, text)
        answer = _plain(response)
        facts["response_digest"] = _digest(answer)
        if len(to_json(answer)) <= _MAX_RECORDED_BYTES:
            facts["response"] = answer
        self._record(call, request.method, facts)
        return response

    def refuse(self, call: AskingCall | None, why: str, method: str | None = None) -> Any:
        """The error that a server gets for a request which is not forwarded."""
        import mcp_types

        text = f"Toolcrib refused the request of the MCP server `{self.server}`: {why}"
        if call is not None:
            call.refusals.append(text)
            self._record(call, method or "refused", {"refused": why})
        return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=text)

    def _record(self, call: AskingCall, method: str, facts: dict[str, Any]) -> None:
        client = call.client
        data: dict[str, Any] = {"server": self.server, "method": method, **facts}
        if client is not None:
            data["client"] = client.client_name
        context = call.context
        with suppress(InvalidEvent):
            context.emit(f"tool.{context.tool_name}.client_request", self._scrubber.scrub(data))


def _sampling_text(params: mcp_types.CreateMessageRequestParams) -> str:
    lines = ["May it have your model answer this?"]
    if params.system_prompt:
        lines.append(f"system: {params.system_prompt}")
    for message in params.messages:
        for block in message.content_as_list:
            words = getattr(block, "text", None) or f"[{block.type}]"
            lines.append(f"{message.role}: {words}")
    text = "\n".join(lines)
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}..."


def _plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _digest(value: Any) -> str:
    return hashlib.sha256(to_json(value)).hexdigest()
