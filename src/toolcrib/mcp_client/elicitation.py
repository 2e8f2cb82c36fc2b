"""Questions of a mounted server to a person: they become questions of the call that runs there."""

from __future__ import annotations

import logging
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import (
    InvalidTool,
    NobodyToAsk,
    QuestionDeclined,
    QuestionUnanswered,
    UsageError,
)

if TYPE_CHECKING:
    import mcp_types

    from toolcrib.mcp_client.running_calls import AskingCall
    from toolcrib.mcp_client.server_requests import ServerRequests

logger = logging.getLogger(__name__)

OPENED: Final = "I have opened it"
NOT_OPENED: Final = "I will not open it"


class ServerQuestions:
    """Answers the elicitations of one connection."""

    def __init__(self, requests: ServerRequests) -> None:
        self._requests = requests

    async def __call__(self, context: Any, params: mcp_types.ElicitRequestParams) -> Any:
        """The answer to a question, or why nobody is asked."""
        import mcp_types

        requests = self._requests
        call = requests.calls.asking()
        if not requests.terms.elicitation_is_allowed:
            return requests.refuse(call, "the configuration of this server denies questions")
        if call is None:
            return requests.refuse(None, "the question belongs to no call that is known here")
        if isinstance(params, mcp_types.ElicitRequestURLParams):
            if call.client is not None and call.client.can("elicitation.url"):
                # One revision of the protocol requires the id, and the other has none.
                elicitation_id = params.elicitation_id or f"elicitation_{token_hex(8)}"
                requests.expect_visit(call, elicitation_id)
                labelled = mcp_types.ElicitRequestURLParams(
                    message=call.label(params.message),
                    url=params.url,
                    elicitation_id=elicitation_id,
                )
                return await requests.forward(call, mcp_types.ElicitRequest(params=labelled))
            return await self._ask_to_open(call, params)
        return await self._ask(call, params.message, params.requested_schema)

    async def _ask(self, call: AskingCall, message: str, schema: dict[str, Any]) -> Any:
        import mcp_types

        try:
            content = await call.ask(message, schema)
        except (QuestionUnanswered, InvalidTool, UsageError) as error:
            return self._unanswered(call, error)
        return mcp_types.ElicitResult(action="accept", content=content)

    async def _ask_to_open(self, call: AskingCall, params: mcp_types.ElicitRequestURLParams) -> Any:
        """Show the address as a question: every client that answers questions can do that."""
        import mcp_types

        text = f"{params.message}\n\nOpen this address: {params.url}"
        try:
            answer = await call.ask(text, choices=(OPENED, NOT_OPENED))
        except (QuestionUnanswered, InvalidTool, UsageError) as error:
            return self._unanswered(call, error)
        return mcp_types.ElicitResult(action="accept" if answer == OPENED else "decline")

    def _unanswered(self, call: AskingCall, error: Exception) -> Any:
        import mcp_types

        match error:
            case QuestionDeclined():
                return mcp_types.ElicitResult(action="decline")
            case NobodyToAsk():
                return self._requests.refuse(call, str(error).rstrip("."))
            case _:
                name = type(error).__name__
                logger.info("a question of a mounted server got no answer: %s", name)
                return mcp_types.ElicitResult(action="cancel")
