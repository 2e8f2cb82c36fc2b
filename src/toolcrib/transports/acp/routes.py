"""Which method of the Agent Client Protocol is whose, and how its errors are told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from acp import schema
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS
from pydantic import BaseModel

from toolcrib.errors import Refused
from toolcrib.runtime.held import wait_at_most
from toolcrib.transports.acp.agent import Agent
from toolcrib.transports.acp.editor import as_wire
from toolcrib.transports.acp.extension import PREFIX
from toolcrib.transports.acp.refusing import operation_error, request_error
from toolcrib.transports.peer import LONG


@dataclass(frozen=True, slots=True)
class Route:
    """What a method takes, and who answers it."""

    params: type[BaseModel]
    answer: Callable[[Agent, Any], Awaitable[BaseModel | None]]


INITIALIZE: Final = AGENT_METHODS["initialize"]
REQUESTS: Final[dict[str, Route]] = {
    INITIALIZE: Route(schema.InitializeRequest, Agent.initialize),
    AGENT_METHODS["session_new"]: Route(schema.NewSessionRequest, Agent.new_session),
    AGENT_METHODS["session_load"]: Route(schema.LoadSessionRequest, Agent.load_session),
    AGENT_METHODS["session_resume"]: Route(schema.ResumeSessionRequest, Agent.resume_session),
    AGENT_METHODS["session_fork"]: Route(schema.ForkSessionRequest, Agent.fork_session),
    AGENT_METHODS["session_list"]: Route(schema.ListSessionsRequest, Agent.list_sessions),
    AGENT_METHODS["session_close"]: Route(schema.CloseSessionRequest, Agent.close_session),
    AGENT_METHODS["session_delete"]: Route(schema.DeleteSessionRequest, Agent.delete_session),
    AGENT_METHODS["session_prompt"]: Route(schema.PromptRequest, Agent.prompt),
}
NOTIFICATIONS: Final[dict[str, Route]] = {
    AGENT_METHODS["session_cancel"]: Route(schema.CancelNotification, Agent.cancel),
}

LONG_REQUESTS: Final = frozenset({"session/prompt", *(PREFIX + each for each in LONG)})
"""What may take as long as a tool, a model or a person does."""
MOST_LONG: Final = 1_000
"""How many of those a client may have in flight; what ends them is always taken."""


class Routing:
    """What the SDK's connection calls for each message. It raises nothing but `RequestError`: of
    any other exception the SDK would tell the client the text.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._in_flight = 0
        self._long = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Answer a request, or take a notification. One that is not known is ignored."""
        is_long = method in LONG_REQUESTS
        if is_long and self._long >= MOST_LONG:
            told = f"{self._long} calls and prompts are in flight; wait for some of them"
            raise request_error(Refused("unavailable", told), method)
        self._in_flight += 1
        self._long += is_long
        self._is_idle.clear()
        try:
            return await self._routed(method, params, is_notification)
        finally:
            self._in_flight -= 1
            self._long -= is_long
            if not self._in_flight:
                self._is_idle.set()

    async def drain(self, seconds: float) -> None:
        """Wait until all that was asked is answered, or for `seconds`."""
        await wait_at_most(self._is_idle, seconds)

    async def _routed(self, method: str, params: Any, is_notification: bool) -> Any:
        route = (NOTIFICATIONS if is_notification else REQUESTS).get(method)
        if route is not None:
            return await _answer(self._agent, method, route, params)
        if is_notification:
            return None
        if method.startswith(PREFIX):
            return await _operate(self._agent, method.removeprefix(PREFIX), params or {})
        raise RequestError.method_not_found(method)


async def _answer(agent: Agent, method: str, route: Route, params: Any) -> Any:
    try:
        if method != INITIALIZE and not agent.is_initialized:
            raise Refused("invalid", "send initialize first")
        answer = await route.answer(agent, route.params.model_validate(params or {}))
    except RequestError:
        raise
    except Exception as error:
        raise request_error(error, method) from None
    return {} if answer is None else as_wire(answer)


async def _operate(agent: Agent, operation: str, params: Any) -> Any:
    try:
        return await agent.extension.answer(operation, params)
    except Exception as error:
        raise operation_error(error, operation) from None
