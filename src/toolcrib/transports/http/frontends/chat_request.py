"""What a front end asks for with one request, read from the history that it sends.

Only what is new counts: the last message of the user, decisions about calls that wait, and the
results of tools that the front end runs. The ledger has the rest, and no client can rewrite it.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from toolcrib.errors import Refused
from toolcrib.runtime.ownership import may_choose, namespace_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import TypeAdapter

    from toolcrib.runtime.messages import ClientTool
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A new message of the user. Sent again under the same id, it is one message."""

    text: str
    message_id: str | None

    @property
    def idempotency_key(self) -> str | None:
        """The key under which the prompt is sent; None when the message has no id."""
        if self.message_id is None:
            return None
        digest = sha256(self.message_id.encode(errors="surrogatepass")).hexdigest()
        return f"message-{digest[:40]}"


@dataclass(frozen=True, slots=True)
class ChatDecision:
    """The user's answer to a request for approval. `digest` is that of the arguments shown."""

    approval_id: str
    is_approved: bool
    reason: str | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class ChatToolResult:
    """What came of a call that the front end ran: an output, or what went wrong."""

    call_id: str
    output: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request of a front end, about the chat that it calls `chat_id`."""

    chat_id: str
    message: ChatMessage | None = None
    is_retry: bool = False
    """Whether the message was sent before, and is sent again because it got no answer."""
    decisions: tuple[ChatDecision, ...] = ()
    results: tuple[ChatToolResult, ...] = ()
    tools: tuple[ClientTool, ...] = ()


async def session_of(runtime: Runtime, chat_id: str, who: Principal) -> str:
    """The id of the session that a chat is. A principal that may not choose this id has its chats
    in its own namespace, so that nobody meets the sessions of others.
    """
    if may_choose(chat_id, who) or ":" in chat_id:
        return chat_id
    try:
        facts = await runtime.ask("session.get", {"session_id": chat_id}, who)
    except Refused as refused:
        if refused.kind != "not_found":
            raise
    else:
        if facts.owner == who.name:
            return chat_id
    return f"{namespace_of(who.name)}:{chat_id}"


T = TypeVar("T")


def read_typed(adapter: TypeAdapter[T], body: Mapping[str, Any]) -> T:
    """A body as its type. Raises `Refused` (invalid), which names the first fault."""
    try:
        return adapter.validate_python(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        pointer = "/" + "/".join(map(str, fault["loc"]))
        raise Refused("invalid", f"{pointer}: {fault['msg']}") from None
