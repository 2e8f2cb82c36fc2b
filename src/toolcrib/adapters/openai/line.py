"""The way to the Responses API."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.conversation import Heard
from toolcrib.adapters.items import mapping_of, mappings_of, maybe_int, maybe_text
from toolcrib.adapters.line import Answered
from toolcrib.adapters.openai.finding import problem_in, status_of
from toolcrib.adapters.openai.stale import retold
from toolcrib.adapters.openai.watching import Watcher
from toolcrib.adapters.response import Usage
from toolcrib.errors import ContainerGone

if TYPE_CHECKING:
    from toolcrib.adapters.announcing import Announcer
    from toolcrib.adapters.conversation import Conversation
    from toolcrib.adapters.openai.request import Requests
    from toolcrib.adapters.openai.wire import Reply, Wire

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ResponsesLine:
    """Sends the requests of one turn."""

    wire: Wire
    requests: Requests
    prompt_name: str

    async def ask(
        self,
        conversation: Conversation,
        *,
        step: int,
        announcer: Announcer | None,
        deadline: float | None,
    ) -> Answered:
        """Send what is unsent until it is answered."""
        try:
            reply = await self._send(conversation, announcer, deadline)
        except ContainerGone:
            told = retold(conversation.unsent)
            if told == conversation.unsent:
                raise
            logger.warning(
                "%s: a container is gone; what ran in it is told as text", self.prompt_name
            )
            conversation.unsent = told
            reply = await self._send(conversation, announcer, deadline)
        return Answered(_heard(reply), status_of(reply.body), problem_in(reply.body))

    async def _send(
        self, conversation: Conversation, announcer: Announcer | None, deadline: float | None
    ) -> Reply:
        watcher = Watcher(announcer) if announcer else None
        reply = await self.wire.ask(
            self.requests.body(conversation),
            prompt_name=self.prompt_name,
            on_event=watcher.hear if watcher else None,
            deadline=deadline,
        )
        if announcer:
            announcer.flush()
        return reply


def _heard(reply: Reply) -> Heard:
    body = reply.body
    return Heard(
        items=[*mappings_of(body, "output")],
        usage=_usage(body),
        response_id=maybe_text(body, "id"),
        request_id=reply.request_id,
        model=maybe_text(body, "model"),
    )


def _usage(body: dict[str, Any]) -> Usage:
    """The tokens of one response; what the provider does not tell counts as none."""
    usage = mapping_of(body, "usage")
    cached = maybe_int(mapping_of(usage, "input_tokens_details"), "cached_tokens")
    reasoning = maybe_int(mapping_of(usage, "output_tokens_details"), "reasoning_tokens")
    return Usage(
        requests=1,
        input_tokens=maybe_int(usage, "input_tokens") or 0,
        output_tokens=maybe_int(usage, "output_tokens") or 0,
        cached_tokens=cached or 0,
        reasoning_tokens=reasoning or 0,
    )
