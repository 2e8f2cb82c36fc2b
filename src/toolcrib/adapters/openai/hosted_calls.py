"""Provider-run calls: every item that is one becomes an invocation and a record, in order."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from toolcrib.adapters.codec import Codec, Invocation, Item
from toolcrib.adapters.hosted_view import undeclared
from toolcrib.adapters.items import maybe_text, text_of
from toolcrib.adapters.openai.declared import AnyCodec, Hosted
from toolcrib.approval.decision import Actor
from toolcrib.calls.provider_calls import ProviderCall, record_provider_call
from toolcrib.tools.provider import ProviderTool
from toolcrib.tools.ref import ToolRef
from toolcrib.tools.result import ToolResult

if TYPE_CHECKING:
    from toolcrib.session.session import Session
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.tool import Tool

logger = logging.getLogger(__name__)

OURS = frozenset(
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "compaction",
        "compaction_summary",
    }
)
"""Item types that are no call of the provider's."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A provider-run call and the tool it belongs to."""

    name: str
    invocation: Invocation


class HostedCalls:
    """The provider-run calls of one turn."""

    def __init__(
        self,
        session: Session,
        hosted: Sequence[Hosted],
        codecs: Mapping[str, AnyCodec],
        *,
        provider: str,
        originals: Mapping[str, Tool[Any, Any]],
        refs: Mapping[str, ToolRef],
        make_context: Callable[[str, str], ToolContext],
    ) -> None:
        self._session = session
        self._hosted = tuple(hosted)
        self._codecs = codecs
        self._provider = provider
        self._originals = originals
        self._refs = refs
        self._make_context = make_context
        self.ran: list[Ran] = []
        self.skipped: Counter[str] = Counter()

    async def record(self, items: Sequence[Item]) -> None:
        """Account for every item of one step."""
        for item in items:
            kind = maybe_text(item, "type") or "unknown"
            found = self._speaker(item, kind)
            if found is not None:
                await self._record(found, item, items)
            elif kind not in OURS and not self._belongs_elsewhere(kind):
                self.skipped[kind] += 1

    def _speaker(self, item: Item, kind: str) -> Hosted | None:
        """Who speaks for an item: the tool that was offered, else the codec of its kind."""
        label = maybe_text(item, "server_label")
        for hosted in self._hosted:
            if kind in hosted.call_types and self._is_labelled(hosted, label):
                return hosted
        for codec in self._codecs.values():
            if isinstance(codec, Codec):
                known = codec
                if kind in known.call_types:
                    return Hosted(undeclared(known.kind), known)
        return None

    def _is_labelled(self, hosted: Hosted, label: str | None) -> bool:
        own = getattr(hosted.tool.config, "server_label", None)
        return own is None or label is None or own == label

    def _belongs_elsewhere(self, kind: str) -> bool:
        """Results that come as items of their own are read with the call they belong to."""
        return kind.endswith("_output") or kind in ("mcp_list_tools", "mcp_approval_request")

    async def _record(self, hosted: Hosted, item: Item, items: Sequence[Item]) -> None:
        invocation = self._invocation(hosted, item, items)
        invocation = self._hooked(hosted, invocation)
        self.ran.append(Ran(hosted.tool.name, invocation))
        await record_provider_call(
            self._session,
            ProviderCall(
                call_id=invocation.item_id or f"{invocation.kind}_{len(self.ran)}",
                tool=self._ref(hosted),
                provider=self._provider,
                capability=invocation.kind,
                params=invocation.params,
                value=invocation.value,
                message=invocation.message,
                success=invocation.success,
                error=invocation.error,
                raw=dict(invocation.raw),
            ),
            Actor("rule", "declared"),
        )

    def _invocation(self, hosted: Hosted, item: Item, items: Sequence[Item]) -> Invocation:
        codec = hosted.codec
        if isinstance(codec, Codec):
            return codec.invocation(item, items, hosted.tool)
        # A codec of the least kind knows only whole outputs, so it is shown this call alone.
        value = codec.parse_output([item], hosted.tool)
        return Invocation(
            item_id=text_of(item, "id"),
            kind=hosted.tool.kind,
            params=None,
            value=value,
            message=str(maybe_text(item, "status") or "completed"),
            success=maybe_text(item, "status") not in ("failed", "incomplete"),
            error=None,
            raw=item,
        )

    def _hooked(self, hosted: Hosted, invocation: Invocation) -> Invocation:
        """Let the tool's own hook turn the typed output into its result; a failing one is told."""
        original = self._originals.get(hosted.tool.name)
        hook = (
            cast("ProviderTool[Any, Any, Any]", original).handle_provider_output
            if isinstance(original, ProviderTool)
            else None
        )
        if hook is None or invocation.value is None:
            return invocation
        context = self._make_context(hosted.tool.name, invocation.item_id)
        try:
            found = hook(invocation.value, context)
            if inspect.isawaitable(found):
                raise TypeError("handle_provider_output must be a plain function")
        except Exception as error:
            logger.exception("handle_provider_output of %s failed", hosted.tool.name)
            text = f"handle_provider_output failed: {type(error).__name__}: {error}"
            return replace(invocation, success=False, error=text, message=text)
        if not isinstance(found, ToolResult):
            return invocation
        result = found
        return replace(
            invocation,
            value=result.value,
            message=result.message or invocation.message,
            success=result.success,
            error=None if result.success else result.message,
        )

    def _ref(self, hosted: Hosted) -> ToolRef:
        known = self._refs.get(hosted.tool.name)
        return known or ToolRef(hosted.tool.name, self._provider, "0.0.0", "", "provider")
