"""The Agent Client Protocol on stdin and stdout: methods, errors and `$/cancel_request`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from acp import schema
from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS
from pydantic import BaseModel, ValidationError

from toolcrib.errors import Refused
from toolcrib.runtime.live_session import wait_at_most
from toolcrib.runtime.principal import OWNER
from toolcrib.serving.refusals import REFUSALS, as_refused
from toolcrib.serving.stop_signals import on_stop_signals
from toolcrib.transports.acp.agent import Agent
from toolcrib.transports.acp.call_updates import object_in, text_in
from toolcrib.transports.acp.editor import Editor, as_wire
from toolcrib.transports.acp.extension import PREFIX
from toolcrib.transports.acp.line_transport import LineTransport
from toolcrib.transports.jsonrpc import is_request_id
from toolcrib.transports.peer import LONG

if TYPE_CHECKING:
    from toolcrib.errors import RefusalKind
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.pipes import Pipes


_OWN_CODES: Final[dict[RefusalKind, int]] = {
    "unauthorized": -32000,
    "forbidden": -32003,
    "not_found": -32002,
}
"""Kinds for which the protocol has its own code, or uses the common code for something else."""

MAX_FAULTS: Final = 20


def request_error(error: Exception, method: str) -> RequestError:
    """The error of a protocol method. An unexpected exception is logged and its text withheld."""
    refused = _refused(error, method)
    code = _OWN_CODES.get(refused.kind, REFUSALS[refused.kind].code)
    return _request_error(code, refused)


def operation_error(error: Exception, method: str) -> RequestError:
    """The error of an operation, with the code that it has on every transport."""
    refused = _refused(error, method)
    return _request_error(REFUSALS[refused.kind].code, refused)


def _request_error(code: int, refused: Refused) -> RequestError:
    return RequestError(code, refused.message, {"kind": refused.kind, "facts": refused.facts})


def _refused(error: Exception, method: str) -> Refused:
    if isinstance(error, ValidationError):
        faults = [
            {"pointer": "/" + "/".join(map(str, fault["loc"])), "message": fault["msg"]}
            for fault in error.errors(include_url=False, include_input=False)[:MAX_FAULTS]
        ]
        first = faults[0]
        text = f"{method}: {first['pointer']}: {first['message']}"
        return Refused("invalid", text, {"faults": faults})
    return as_refused(error, method)


@dataclass(frozen=True, slots=True)
class MethodRoute:
    """The request type of a method, and the agent's method that answers it."""

    params: type[BaseModel]
    answer: Callable[[Agent, Any], Awaitable[BaseModel | None]]


INITIALIZE: Final = AGENT_METHODS["initialize"]
REQUESTS: Final[dict[str, MethodRoute]] = {
    INITIALIZE: MethodRoute(schema.InitializeRequest, Agent.initialize),
    AGENT_METHODS["session_new"]: MethodRoute(schema.NewSessionRequest, Agent.new_session),
    AGENT_METHODS["session_load"]: MethodRoute(schema.LoadSessionRequest, Agent.load_session),
    AGENT_METHODS["session_resume"]: MethodRoute(schema.ResumeSessionRequest, Agent.resume_session),
    AGENT_METHODS["session_fork"]: MethodRoute(schema.ForkSessionRequest, Agent.fork_session),
    AGENT_METHODS["session_list"]: MethodRoute(schema.ListSessionsRequest, Agent.list_sessions),
    AGENT_METHODS["session_close"]: MethodRoute(schema.CloseSessionRequest, Agent.close_session),
    AGENT_METHODS["session_delete"]: MethodRoute(schema.DeleteSessionRequest, Agent.delete_session),
    AGENT_METHODS["session_prompt"]: MethodRoute(schema.PromptRequest, Agent.prompt),
}
NOTIFICATIONS: Final[dict[str, MethodRoute]] = {
    AGENT_METHODS["session_cancel"]: MethodRoute(schema.CancelNotification, Agent.cancel),
}

LONG_REQUESTS: Final = frozenset({"session/prompt", *(PREFIX + method for method in LONG)})
"""The methods that last as long as a tool, a model or a person takes."""
MAX_LONG: Final = 1_000
"""How many of those may be in flight; cancelling them is always possible."""


class MethodRouter:
    """Handles each message of the SDK's connection. It raises `RequestError` only: the SDK would
    send the text of any other exception to the client.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._in_flight = 0
        self._long = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Answer a request or handle a notification. An unknown notification is ignored."""
        is_long = method in LONG_REQUESTS
        if is_long and self._long >= MAX_LONG:
            text = f"{self._long} calls and prompts are in flight; wait for some to end"
            raise request_error(Refused("unavailable", text), method)
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
        """Wait until all requests are answered, at most `seconds`."""
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


async def _answer(agent: Agent, method: str, route: MethodRoute, params: Any) -> Any:
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


CANCEL_REQUEST: Final = "$/cancel_request"


class CancelRequestTransport:
    """Turns `$/cancel_request`, which names a request, into `session/cancel` for prompts. Other
    requests end by themselves, as the protocol allows.
    """

    def __init__(self, lines: LineTransport) -> None:
        self._lines = lines
        self._prompts: dict[Any, str] = {}

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end."""
        message = await self._lines.receive()
        if message is None:
            return None
        match message.get("method"):
            case "session/prompt" if "id" in message:
                self._prompts[message["id"]] = text_in(object_in(message, "params"), "sessionId")
            case "$/cancel_request":
                return self._cancel(object_in(message, "params"))
            case _:
                pass
        return message

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message. An answered prompt can no longer be cancelled."""
        if "method" not in message:
            self._prompts.pop(message.get("id"), None)
        await self._lines.send(message)

    async def close(self) -> None:
        """Accept no more messages."""
        await self._lines.close()

    def _cancel(self, params: Mapping[str, Any]) -> dict[str, Any]:
        named = params.get("requestId")
        session_id = self._prompts.get(named) if is_request_id(named) else None
        if session_id is None:
            return {"method": CANCEL_REQUEST, "params": {}}
        return {"method": AGENT_METHODS["session_cancel"], "params": {"sessionId": session_id}}


FLUSH_SECONDS: Final = 5.0
"""How long a client may take to read the last messages."""


async def serve_acp(runtime: Runtime, pipes: Pipes, who: Principal = OWNER) -> None:
    """Start the runtime and serve one editor until it ends its input, disconnects, or the process
    gets a stop signal; then drain and close the runtime.

    `pipes` come from `claim_pipes`, which the program calls before it loads any tool.
    """
    await runtime.start()
    transport = LineTransport(pipes, runtime.config.max_payload_bytes)
    acp = AcpConnection(runtime, transport, who)
    stopped = asyncio.Event()
    listening = asyncio.ensure_future(acp.connection.main_loop())
    waiting = asyncio.ensure_future(stopped.wait())
    try:
        with on_stop_signals(stopped.set):
            ends = [listening, waiting, transport.ending]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not stopped.is_set():
                acp.agent.close()
            # The editor is still read meanwhile: it may have client tools to answer for.
            await runtime.close()
            await acp.routing.drain(FLUSH_SECONDS)
            acp.agent.close()
            await transport.written(FLUSH_SECONDS)
    finally:
        await _end(acp.connection, listening, waiting)
        pipes.close()


class AcpConnection:
    """An agent and its connection to the editor. Run the `main_loop` of the connection; close both
    when it ends.
    """

    def __init__(self, runtime: Runtime, transport: LineTransport, who: Principal = OWNER) -> None:
        lines = CancelRequestTransport(transport)
        self.connection = Connection(self._handle, lines, listening=False)
        self.agent = Agent(runtime, replace(who, transport="acp"), Editor(self.connection))
        self.routing = MethodRouter(self.agent)

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        return await self.routing.handle(method, params, is_notification)


async def _end(connection: Connection, *tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await connection.close()
