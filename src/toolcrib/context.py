"""`AgentContext`: a session by the name and with the settings that toolsets know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from toolcrib.errors import UsageError
from toolcrib.session.session import Session
from toolcrib.session.state import ResumableState


class AgentContext:
    """A thin face of `Session`, not a second truth: everything lives in `session`.

    Takes the options of `Session`, or a session that exists already.
    """

    def __init__(self, session: Session | None = None, **options: Any) -> None:
        if session is not None and options:
            raise UsageError(
                f"AgentContext got a session and options for a new one ({', '.join(options)}); "
                "give the options to the session"
            )
        self.session = Session(**options) if session is None else session
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
            # Taken apart into letters it would name no tool, and nothing would ever be asked.
            raise UsageError(f"need_user_approve_tools is a list of names; write [{names!r}]")
        self.session.need_user_approve_tools = list(names)
        self.session.save_settings()

    def export_state(self, *, key: bytes | None = None) -> ResumableState:
        """The session in a form that can go on in another process."""
        return self.session.export_state(key=key)

    def with_state(self, state: ResumableState | None, *, key: bytes | None = None) -> Self:
        """Go on where `state` ended; None changes nothing. Never weakens what is set here."""
        self.session.with_state(state, key=key)
        return self
