"""What the client of a session declared - environment, capabilities, client tools - for the replica
that opens the session next. It is kept as a secret: an environment may hold some.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter
from pydantic_core import to_json

from toolcrib.errors import Refused, StoreError
from toolcrib.runtime.messages import ClientTool, CreateSession, ResumeSession
from toolcrib.store.shared_store import SharedValue
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.store.shared_store import SharedStore

_ATTEMPTS: Final = 10
"""How often a value is written again that another replica has changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a client has declared in a session."""

    environment: dict[str, str] = field(default_factory=dict[str, str])
    capabilities: list[str] = field(default_factory=list[str])
    client_tools: list[ClientTool] = field(default_factory=list[ClientTool])
    tools_of: str | None = None
    """The principal whose client runs the client tools."""

    def and_then(self, params: CreateSession | ResumeSession, who: Principal) -> Declared:
        """This and what somebody declares now. Raises `Refused` (forbidden) for client tools beside
        those of another principal.
        """
        tools, names = params.client_tools, {tool.name for tool in params.client_tools}
        if tools and self.tools_of not in (None, who.name) and not who.may("admin"):
            raise Refused(
                "forbidden",
                f"{who.name!r} may not declare client tools in this session: they belong to "
                "another principal",
            )
        kept = [tool for tool in self.client_tools if tool.name not in names]
        return Declared(
            dict(params.environment) or self.environment,
            list(params.capabilities) or self.capabilities,
            [*kept, *tools],
            who.name if tools else self.tools_of,
        )


class DeclaredParams:
    """What was declared in each session of a store that several share."""

    def __init__(self, store: SharedStore) -> None:
        self._store = store

    async def of(self, session_id: str) -> Declared:
        """What was declared in a session so far."""
        value = await ask_store(self._store, self._store.value, _name(session_id))
        return Declared() if value is None else _adapter().validate_json(value.body)

    async def add(
        self, session_id: str, params: CreateSession | ResumeSession, who: Principal
    ) -> Declared:
        """Keep what somebody declares now, with what was declared before; returns both. Raises
        `Refused`.
        """
        try:
            return await ask_store(self._store, self._add, _name(session_id), params, who)
        except StoreError as error:
            raise Refused(
                "unavailable", f"what the client declares cannot be kept: {error}"
            ) from None

    def _add(self, name: str, params: CreateSession | ResumeSession, who: Principal) -> Declared:
        for _ in range(_ATTEMPTS):
            saved = self._store.value(name)
            before = Declared() if saved is None else _adapter().validate_json(saved.body)
            declared = before.and_then(params, who)
            if declared == before:
                return before
            version = 0 if saved is None else saved.version
            value = SharedValue(name, to_json(declared), version + 1, is_secret=True)
            if self._store.put_value(value, after=None if saved is None else version):
                return declared
        raise Refused("busy", "others declare in this session at the same time; try again")


def with_declared(params: ResumeSession, declared: Declared) -> ResumeSession:
    """The parameters that open a session again as its clients have declared it."""
    return replace(
        params,
        environment=declared.environment,
        capabilities=declared.capabilities,
        client_tools=declared.client_tools,
    )


def _name(session_id: str) -> str:
    return f"session/{session_id}/declared"


@cache
def _adapter() -> TypeAdapter[Declared]:
    return TypeAdapter(Declared)
