"""`AgentContext`: the session of a toolset, with the settings that toolsets read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from toolcrib.errors import UsageError
from toolcrib.session.session import Session
from toolcrib.session.state import ResumableState


class AgentContext:
    """A view of a `Session`, without state of its own: everything lives in `session`.

    Takes the options of `Session`, or an existing session.
    """

    def __init__(self, session: Session | None = None, **options: Any) -> None:
        if session is not None and options:
            raise UsageError(
                f"AgentContext got a session and options for a new one ({', '.join(options)}); "
                "pass the options to the session"
            )
        self.session = Session(**options) if session is None else session
        self.bridges: dict[object, Any] = {}
        """What toolsets keep for the runs of agents in this context."""
        if self.session.deps is None:
            self.session.deps = self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    @property
    def need_user_approve_tools(self) -> list[str]:
        """Names of tools that a person must approve. Read at every call."""
        return self.session.need_user_approve_tools

    @need_user_approve_tools.setter
    def need_user_approve_tools(self, names: Iterable[str]) -> None:
        if isinstance(names, str):
            # A text would be a list of letters: it names no tool, so no call would need approval.
            raise UsageError(f"need_user_approve_tools is a list of names; write [{names!r}]")
        self.session.need_user_approve_tools = list(names)
        self.session.save_settings()

    def export_state(self, *, key: bytes | None = None) -> ResumableState:
        """The session's state, to continue in another process."""
        return self.session.export_state(key=key)

    def with_state(self, state: ResumableState | None, *, key: bytes | None = None) -> Self:
        """Continue from `state`; None changes nothing. Approval settings made here are kept."""
        self.session.with_state(state, key=key)
        return self
