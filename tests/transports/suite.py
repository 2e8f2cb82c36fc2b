"""One suite for every transport: what a client is told does not depend on how it asks.

A transport joins with a module `<name>_driver.py` here that calls `column(name, opened)`, where
`opened` gives a driver of a fresh shop (`tests.transports.shop`) with the session `SESSION` open.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, cast

Json = Any
SESSION = "the-session"


class Driver(Protocol):
    """A client of the shop, by one transport. Answers are JSON, as the operations give them."""

    async def call(self, name: str, arguments: Json, *, call_id: str | None = None) -> Json:
        """Call a tool, or take up the waiting call of that id."""
        ...

    async def cancel(self, call_id: str) -> None:
        """Cancel a call that runs."""
        ...

    async def artifact(self, artifact_id: str) -> str:
        """The whole text of an artifact."""
        ...

    async def prompt(self, text: str) -> Json:
        """Have the model answer, waiting for approvals."""
        ...

    async def pending(self) -> list[str]:
        """The ids of the requests for approval that wait."""
        ...

    async def decide(self, approval_id: str, decision: Literal["approve", "deny"]) -> None:
        """Decide a request for approval."""
        ...

    def events(self) -> AsyncGenerator[Json]:
        """Every event of the session, from its first, as they come."""
        ...


Opened = Callable[[bool], AbstractAsyncContextManager[Driver]]
"""Opens a driver; the flag says whether the shop has a model."""

Carried = Literal["calls", "prompts"]

COLUMNS: dict[str, Opened] = {}
CARRIES: dict[str, frozenset[Carried]] = {}


def column(name: str, opened: Opened, *carries: Carried) -> None:
    """Have the suite run over one more transport: what it carries of it, or all."""
    COLUMNS[name] = opened
    CARRIES[name] = frozenset(carries or ("calls", "prompts"))


def columns_with(carried: Carried) -> list[str]:
    """The transports that are compared with the process itself."""
    return [name for name in COLUMNS if name != "in-process" and carried in CARRIES[name]]


class AskingDriver:
    """A driver for transports that carry the operations as they are."""

    async def ask(self, method: str, params: Json) -> Json:
        raise NotImplementedError

    def events(self) -> AsyncGenerator[Json]:
        raise NotImplementedError

    async def call(self, name: str, arguments: Json, *, call_id: str | None = None) -> Json:
        asked = {"session_id": SESSION, "name": name, "arguments": arguments}
        return await self.ask(
            "tools.call", asked if call_id is None else asked | {"call_id": call_id}
        )

    async def cancel(self, call_id: str) -> None:
        await self.ask("tools.cancel", {"session_id": SESSION, "call_id": call_id})

    async def artifact(self, artifact_id: str) -> str:
        params = {"session_id": SESSION, "artifact_id": artifact_id}
        return (await self.ask("artifacts.get", params))["text"]

    async def prompt(self, text: str) -> Json:
        return await self.ask("prompt.send", {"session_id": SESSION, "text": text})

    async def pending(self) -> list[str]:
        inbox = await self.ask("approvals.list", {"session_id": SESSION})
        return [each["approval_id"] for each in inbox["approvals"]]

    async def decide(self, approval_id: str, decision: Literal["approve", "deny"]) -> None:
        await self.ask("approvals.decide", {"approval_id": approval_id, "decision": decision})


_IDS = re.compile(r"(?<![a-z])(call|apr|ses|grant)_(?:[0-9]+_[0-9]+|[0-9a-f]{8,})\b")
_KEYED = re.compile(r"key_[0-9a-f]{32}\b")
"""Ids of calls that were made under an idempotency key."""
_TIMES = {"at", "created_at", "deadline", "duration_seconds", "waited_seconds", "transport"}


def normal(told: Json) -> Json:
    """What was told, without what differs each time: ids and times."""
    if isinstance(told, dict):
        facts = cast("dict[str, Json]", told)
        if facts.get("kind") == "session.settings_saved":
            # The settings name the transport that the session was made over.
            facts = {**facts, "data": None}
        return {key: None if key in _TIMES else normal(value) for key, value in facts.items()}
    if isinstance(told, list):
        return [normal(each) for each in cast("list[Json]", told)]
    return _KEYED.sub("call_*", _IDS.sub(r"\1_*", told)) if isinstance(told, str) else told


async def until(events: AsyncIterator[Json], kind: str) -> list[Json]:
    """The events up to the first of a kind, and that one."""
    found: list[Json] = []
    async for event in events:
        found.append(event)
        if event["kind"] == kind:
            break
    return found


Scenario = Callable[[Driver], Awaitable[Json]]
