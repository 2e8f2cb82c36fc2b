"""Provider-run calls: every item that is one becomes an invocation and a record, in order.

A tool's own say in what the provider's output of it means.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from toolcrib.adapters.answer import answer_items, told_apart
from toolcrib.adapters.codec import Codec, Invocation, RawItem, failure_of
from toolcrib.adapters.item_classifier import ItemClassifier
from toolcrib.adapters.json_fields import maybe_text, text_of
from toolcrib.adapters.tool_calls import is_sound_id
from toolcrib.adapters.tool_declarations import HostedDeclaration
from toolcrib.adapters.type_fit import as_declared
from toolcrib.approval.decision import Actor
from toolcrib.calls.provider_calls import ProviderCall, in_provider_call, record_provider_call
from toolcrib.errors import PromptEvaluationError
from toolcrib.tools.identity import ToolRef
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.result import ToolResult

if TYPE_CHECKING:
    from toolcrib.adapters.credentials import Credentials
    from toolcrib.calls.call import Call, Caller
    from toolcrib.ledger.events import ModelStatus, ToolInvoked
    from toolcrib.session.session import Session
    from toolcrib.tools.prepared_tool import PreparedTool


logger = logging.getLogger(__name__)


async def hooked(call: Call, invocation: Invocation) -> Invocation:
    """The invocation as the tool's hook makes it; as it was where there is no hook, nothing to
    give it, or it returns None. A hook that fails makes a failed call, not a failed prompt.
    """
    tool, context = call.tool.tool, call.context
    hook = (
        cast("ProviderTool[Any, Any, Any]", tool).handle_provider_output
        if isinstance(tool, ProviderTool)
        else None
    )
    if hook is None or context is None or invocation.value is None:
        return invocation
    try:
        # In a thread, so that a hook may evaluate another prompt and wait for it.
        found: Any = await asyncio.to_thread(hook, invocation.value, context)
        if inspect.isawaitable(found):
            found = await found
        if found is None:
            return invocation
        if not isinstance(found, ToolResult):
            raise TypeError(f"it returned {type(found).__name__}, not a ToolResult or None")
    except Exception as error:
        logger.exception("handle_provider_output of %s failed", tool.name)
        text = f"handle_provider_output failed: {type(error).__name__}: {error}"
        return replace(invocation, success=False, error=text, message=text)
    return _as_said(invocation, cast("ToolResult[Any]", found))


def _as_said(invocation: Invocation, result: ToolResult[Any]) -> Invocation:
    return replace(
        invocation,
        value=result.value,
        message=result.message or invocation.message,
        success=result.success,
        error=None if result.success else result.message or invocation.error,
    )


MakeCall = Callable[["PreparedTool", str, int], "Call"]


@dataclass(frozen=True, slots=True)
class HostedInvocation:
    """A provider-run call and the tool it belongs to."""

    name: str
    invocation: Invocation


class HostedCalls:
    """The provider-run calls of one turn."""

    def __init__(
        self,
        session: Session,
        sorter: ItemClassifier,
        *,
        provider: str,
        prompt_name: str,
        offered: Mapping[str, PreparedTool],
        make_call: MakeCall,
        credentials: Credentials,
        caller: Caller | None = None,
    ) -> None:
        self._session = session
        self._sorter = sorter
        self._provider = provider
        self._prompt_name = prompt_name
        self._offered = offered
        self._make_call = make_call
        self._credentials = credentials
        self._caller = caller
        self._before: list[RawItem] = []
        self._open: list[tuple[HostedDeclaration, RawItem]] = []
        self.ran: list[HostedInvocation] = []
        self.skipped: Counter[str] = Counter()

    async def record(
        self,
        items: Sequence[RawItem],
        turn: int,
        status: ModelStatus,
        known: Mapping[str, ToolInvoked],
    ) -> None:
        """Account for every item of one step, and for calls of earlier steps that end in it. What
        is `known`, by call id, is in the ledger already and is not recorded again.
        """
        whole = [*self._before, *items]
        self._before = whole if status == "paused" else []
        # A step that asks for calls of ours, or that is asked for again, has no answer in it.
        is_last = status == "completed" and not self._sorter.asked(whole)
        placed = told_apart(whole, answer_items(whole) if is_last else [])
        await self._end_open(placed, turn, known)
        for item in items:
            owner = self._sorter.owner(item, whole)
            if self._sorter.is_unknown(item, owner):
                self.skipped[text_of(item, "type") or "unknown"] += 1
            if not isinstance(owner, HostedDeclaration):
                continue
            if owner.is_over(item, items):
                await self._account(owner, item, placed, turn, known)
            else:
                self._open.append((owner, item))

    async def settle(self, turn: int) -> None:
        """Account for the calls whose results never came."""
        for hosted, item in self._open:
            await self._account(hosted, item, [item], turn, {})
        self._open = []

    async def _end_open(
        self, items: Sequence[RawItem], turn: int, known: Mapping[str, ToolInvoked]
    ) -> None:
        """Account for the calls that began in an earlier step and whose results are here."""
        still_open: list[tuple[HostedDeclaration, RawItem]] = []
        for hosted, item in self._open:
            if hosted.is_over(item, items):
                await self._account(hosted, item, [item, *items], turn, known)
            else:
                still_open.append((hosted, item))
        self._open = still_open

    async def _account(
        self,
        hosted: HostedDeclaration,
        item: RawItem,
        items: Sequence[RawItem],
        turn: int,
        known: Mapping[str, ToolInvoked],
    ) -> None:
        invocation = self._invocation(hosted, item, items)
        prepared = self._offered.get(hosted.tool.name)
        if prepared is not None:
            invocation = as_declared(prepared.tool, invocation)
        call_id = self._call_id(invocation, turn)
        recorded = known.get(call_id)
        if recorded is not None:
            self._keep(hosted, _as_recorded(invocation, recorded))
            return
        if prepared is not None:
            call = self._make_call(prepared, call_id, turn)
            with in_provider_call(call):
                invocation = await hooked(call, invocation)
        self._keep(hosted, invocation)
        await record_provider_call(
            self._session, self._call(hosted, invocation, call_id), Actor("rule", "declared")
        )

    def _keep(self, hosted: HostedDeclaration, invocation: Invocation) -> None:
        self.ran.append(HostedInvocation(hosted.tool.name, invocation))

    def _call(
        self, hosted: HostedDeclaration, invocation: Invocation, call_id: str
    ) -> ProviderCall:
        prepared = self._offered.get(hosted.tool.name)
        unoffered = ToolRef(hosted.tool.name, self._provider, "0.0.0", "", "provider")
        # Whatever a server was told may come back in any call: the model hears it too.
        hide = self._credentials.hide
        return ProviderCall(
            call_id=call_id,
            tool=prepared.ref if prepared else unoffered,
            provider=self._provider,
            capability=invocation.kind,
            params=self._credentials.hide_typed(invocation.params),
            value=self._credentials.hide_typed(invocation.value),
            message=hide(invocation.message),
            success=invocation.success,
            error=hide(invocation.error),
            raw=hide(dict(invocation.raw)),
            caller=self._caller,
        )

    def _call_id(self, invocation: Invocation, turn: int) -> str:
        """The provider's id, or one by the call's place where that cannot be written down."""
        given = invocation.item_id
        by_place = f"{invocation.kind}_{turn}_{len(self.ran) + 1}"
        return given if is_sound_id(given) else by_place

    def _invocation(
        self, hosted: HostedDeclaration, item: RawItem, items: Sequence[RawItem]
    ) -> Invocation:
        try:
            if isinstance(hosted.codec, Codec):
                return hosted.codec.invocation(item, items, hosted.tool)
            return _least(hosted, item)
        except PromptEvaluationError:
            raise
        except Exception as error:
            raise PromptEvaluationError(
                f"the codec of {hosted.tool.kind} could not read a call: "
                f"{type(error).__name__}: {error}",
                prompt_name=self._prompt_name,
                phase="parse",
            ) from error


def _least(hosted: HostedDeclaration, item: RawItem) -> Invocation:
    """The invocation for a codec of the least kind: it knows only whole outputs, so it is shown
    this call alone.
    """
    failure = failure_of(item)
    return Invocation(
        item_id=text_of(item, "id"),
        kind=hosted.tool.kind,
        params=None,
        value=None if failure else hosted.codec.parse_output([item], hosted.tool),
        message=failure or maybe_text(item, "status") or "completed",
        success=failure is None,
        error=failure,
        raw=item,
    )


def _as_recorded(invocation: Invocation, event: ToolInvoked) -> Invocation:
    """The invocation as a hook may have left it, when it was recorded."""
    error = event.failure.message if event.failure else None
    return replace(invocation, message=event.message, success=event.success, error=error)
