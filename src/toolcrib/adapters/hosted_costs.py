"""What a provider bills for the calls that it ran, besides tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.items import mapping_of, text_of
from toolcrib.ledger.events import ToolInvoked
from toolcrib.prices.cost import Cost, CostPart
from toolcrib.prices.price_list import (
    CONTAINER_KINDS,
    SESSION_SECONDS,
    HostedUse,
    session_seconds,
)
from toolcrib.store.store import ask_store
from toolcrib.tools.code_interpreter import CodeInterpreterResult, CodeRun
from toolcrib.tools.shell import ShellResult

if TYPE_CHECKING:
    from toolcrib.adapters.codec import Invocation
    from toolcrib.session.session import Session
    from toolcrib.tools.tool import Tool

_DEFAULT_IMAGE_MODEL: Final = {"openai": "gpt-image-2"}
_PER_PROMPT: Final = ("gemini-1", "gemini-2")
"""Models whose searches are billed once for each request, however many queries it took."""


class HostedCosts:
    """Prices the provider-run calls of one turn. A container is billed by the session, which may
    have begun in an earlier turn: the ledger knows.
    """

    def __init__(self, session: Session, provider: str) -> None:
        self.model = ""
        self._session = session
        self._provider = provider
        self._session_starts: dict[str, float] | None = None

    async def cost(self, invocation: Invocation, tool: Tool[Any, Any]) -> Cost:
        """What the call cost; with a part of unknown price when nobody knows."""
        use = self._use(invocation, getattr(tool, "config", None))
        now = self._session.clock()
        if use.container_id is not None and await self._is_paid(use.container_id, now):
            return Cost((CostPart("container", use.container_id, 0, 0, "the same session"),))
        part = self._session.store.prices.call(use, now)
        if part is not None and part.what == "container" and self._session_starts is not None:
            self._session_starts[part.of] = now
        return Cost((part or CostPart(use.kind, use.provider, use.quantity, None),))

    def _use(self, invocation: Invocation, config: Any) -> HostedUse:
        raw, kind = invocation.raw, invocation.kind
        container_id = _container_id(invocation) if kind in CONTAINER_KINDS else None
        is_image = kind == "image_generation"
        model = getattr(config, "model", None) or _DEFAULT_IMAGE_MODEL.get(self._provider)
        return HostedUse(
            provider=self._provider,
            model=self.model,
            kind=kind,
            quantity=self._searches(invocation) if kind == "web_search" else 1,
            container_id=container_id,
            memory_limit=getattr(getattr(config, "container", None), "memory_limit", None),
            image_model=model if is_image else None,
            image_quality=text_of(raw, "quality") or getattr(config, "quality", None),
            image_size=text_of(raw, "size") or getattr(config, "size", None),
        )

    def _searches(self, invocation: Invocation) -> int:
        """How many searches a call is billed as: opening a page that was found is none."""
        if text_of(mapping_of(invocation.raw, "action"), "type") not in ("", "search"):
            return 0
        is_google = self._provider.startswith("google")
        if is_google and not self.model.startswith(_PER_PROMPT):
            return max(1, len(getattr(invocation.params, "queries", None) or ()))
        return 1

    async def _is_paid(self, container_id: str, now: float) -> bool:
        """Whether the session of a container that is billed already still lasts."""
        if self._session_starts is None:
            session = self._session
            self._session_starts = await ask_store(session.store, _session_starts, session, now)
        start = self._session_starts.get(container_id)
        return start is not None and now < start + session_seconds(self._provider)


def _session_starts(session: Session, now: float) -> dict[str, float]:
    """When the container sessions began that may still last, by container. May touch the disk."""
    starts: dict[str, float] = {}
    for event in session.events(kinds=(ToolInvoked.kind,), newest_first=True):
        if event.at < now - SESSION_SECONDS:
            break
        cost = event.cost if isinstance(event, ToolInvoked) else None
        for part in cost.parts if cost is not None else ():
            if part.what == "container" and part.nanos:
                starts.setdefault(part.of, event.at)
    return starts


def _container_id(invocation: Invocation) -> str | None:
    for facts in (invocation.value, invocation.params):
        match facts:
            case CodeInterpreterResult() | CodeRun() | ShellResult():
                return facts.container_id
            case _:
                pass
    return None
