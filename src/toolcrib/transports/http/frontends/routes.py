"""Which endpoint of a front end is where, and what a client sends there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.transports.http.frontends.ag_ui_input import AgUiRun
from toolcrib.transports.http.frontends.endpoints import (
    AgUiEndpoint,
    Frontends,
    UiResumeEndpoint,
    UiStreamEndpoint,
    ag_ui_messages_endpoint,
    ui_messages_endpoint,
)
from toolcrib.transports.http.frontends.ui_messages import UiChatRequest

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Role
    from toolcrib.transports.http.routes import Verb


@dataclass(frozen=True, slots=True)
class FrontendRoute:
    """An endpoint of a front end at a method and a path."""

    name: str
    verb: Verb
    path: str
    about: str
    roles: tuple[Role, ...]
    endpoint: Callable[[Frontends], Any]
    body: type[Any] | None = None
    """What a client sends; fields that it does not name are ignored."""
    is_stream: bool = False
    may_be_empty: bool = False
    """Whether the answer may be 204: there is nothing to send."""

    @property
    def in_path(self) -> tuple[str, ...]:
        """The names of the parameters in the path."""
        return tuple(re.findall(r"{(\w+)}", self.path))


FRONTEND_ROUTES: Final = (
    FrontendRoute(
        "ui.send",
        "POST",
        "/v1/ui-stream",
        "A request of the Vercel AI SDK's chat, answered with its UI message stream.",
        ("caller",),
        UiStreamEndpoint,
        body=UiChatRequest,
        is_stream=True,
    ),
    FrontendRoute(
        "ui.resume",
        "GET",
        "/v1/ui-stream/{chat_id}/stream",
        "The turn that runs in a chat, from its start; 204 when none runs.",
        ("caller", "auditor"),
        UiResumeEndpoint,
        is_stream=True,
        may_be_empty=True,
    ),
    FrontendRoute(
        "ui.messages",
        "GET",
        "/v1/ui-stream/{chat_id}/messages",
        "The last turns of a chat as messages of the Vercel AI SDK.",
        ("caller", "auditor"),
        ui_messages_endpoint,
    ),
    FrontendRoute(
        "ag_ui.run",
        "POST",
        "/v1/ag-ui",
        "A run of an AG-UI client, answered with its events.",
        ("caller",),
        AgUiEndpoint,
        body=AgUiRun,
        is_stream=True,
    ),
    FrontendRoute(
        "ag_ui.messages",
        "GET",
        "/v1/ag-ui/{chat_id}/messages",
        "The last turns of a thread as messages of AG-UI.",
        ("caller", "auditor"),
        ag_ui_messages_endpoint,
    ),
)
