"""Provider-run calls: each becomes an invocation and a record, in order.

Before it is recorded, the tool's output hook (`handle_provider_output`) may replace its result.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, assert_never, cast

from toolcrib.adapters.answer import answer_items, codec_view
from toolcrib.adapters.codec import Codec, Invocation, RawItem
from toolcrib.adapters.hosted_costs import HostedCosts
from toolcrib.adapters.items import (
    ContextItem,
    HostedCallItem,
    ModelMessage,
    ReasoningItem,
    ReplyItem,
    ToolCallItem,
    UnknownItem,
    is_sound_id,
    tool_calls,
)
from toolcrib.adapters.type_fit import as_declared
from toolcrib.approval.decision import Actor
from toolcrib.calls.provider_calls import ProviderCall, in_provider_call, record_provider_call
from toolcrib.errors import PromptEvaluationError
from toolcrib.tools.identity import ToolRef
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.result import ToolResult

if TYPE_CHECKING:
    from toolcrib.adapters.credentials import Credentials
    from toolcrib.adapters.tool_calls import ItemFormat
    from toolcrib.approval.caller import Caller
    from toolcrib.calls.call import Call
    from toolcrib.ledger.events import ToolInvoked
    from toolcrib.ledger.prompt_events import ModelStatus
    from toolcrib.session.session import Session
    from toolcrib.tools.prepared_tool import PreparedTool


logger = logging.getLogger(__name__)


async def hooked(call: Call, invocation: Invocation) -> Invocation:
    """The invocation after the tool's output hook; unchanged without a hook, without a value, and
    when the hook returns None. A hook that fails makes a failed call, not a failed prompt.
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
        result: Any = await asyncio.to_thread(hook, invocation.value, context)
        if inspect.isawaitable(result):
            result = await result
        if result is None:
            return invocation
        if not isinstance(result, ToolResult):
            raise TypeError(f"it returned {type(result).__name__}, not a ToolResult or None")
    except Exception as error:
        logger.exception("handle_provider_output of %s failed", tool.name)
        text = f"handle_provider_output failed: {type(error).__name__}: {error}"
        return replace(invocation, success=False, error=text, message=text)
    return _with_result(invocation, cast("ToolResult[Any]", result))


def _with_result(invocation: Invocation, result: ToolResult[Any]) -> Invocation:
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
        item_format: ItemFormat,
        *,
        provider: str,
        prompt_name: str,
        offered: Mapping[str, PreparedTool],
        make_call: MakeCall,
        credentials: Credentials,
        caller: Caller | None = None,
    ) -> None:
        self._session = session
        self._format = item_format
        self._provider = provider
        self._prompt_name = prompt_name
        self._offered = offered
        self._make_call = make_call
        self._credentials = credentials
        self._caller = caller
        self._paused: list[ReplyItem] = []
        self._open: list[HostedCallItem] = []
        self.ran: list[HostedInvocation] = []
        self.skipped: Counter[str] = Counter()
        self.costs = HostedCosts(session, provider)

    async def record(
        self,
        items: Sequence[ReplyItem],
        turn: int,
        status: ModelStatus,
        known: Mapping[str, ToolInvoked],
    ) -> None:
        """Account for every item of one step, and for calls of earlier steps that end in it. Calls
        in `known`, by call id, are in the ledger already and are not recorded again.
        """
        whole = [*self._paused, *items]
        self._paused = whole if status == "paused" else []
        # A step that asks for calls, or whose request is made again, holds no answer.
        is_last = status == "completed" and not tool_calls(whole)
        raws = codec_view(whole, answer_items(whole) if is_last else [], self._format)
        await self._end_open(raws, turn, known)
        for item in items:
            match item:
                case HostedCallItem():
                    if item.unknown_type is not None:
                        self.skipped[item.unknown_type] += 1
                    if item.declaration.is_over(item.raw, [other.raw for other in items]):
                        await self._account(item, raws, turn, known)
                    else:
                        self._open.append(item)
                case UnknownItem():
                    self.skipped[item.type] += 1
                case ModelMessage() | ReasoningItem() | ToolCallItem() | ContextItem():
                    pass
                case _:
                    assert_never(item)

    async def settle(self, turn: int) -> None:
        """Account for the calls whose results never came."""
        for item in self._open:
            await self._account(item, [item.raw], turn, {})
        self._open = []

    async def _end_open(
        self, raws: Sequence[RawItem], turn: int, known: Mapping[str, ToolInvoked]
    ) -> None:
        """Account for the calls that began in an earlier step and whose results are here."""
        still_open: list[HostedCallItem] = []
        for item in self._open:
            if item.declaration.is_over(item.raw, raws):
                await self._account(item, [item.raw, *raws], turn, known)
            else:
                still_open.append(item)
        self._open = still_open

    async def _account(
        self,
        item: HostedCallItem,
        raws: Sequence[RawItem],
        turn: int,
        known: Mapping[str, ToolInvoked],
    ) -> None:
        tool_name = item.declaration.tool.name
        invocation = self._invocation(item, raws)
        prepared = self._offered.get(tool_name)
        if prepared is not None and (prepared.tool.params_type or prepared.tool.result_type):
            invocation = as_declared(prepared.tool, invocation)
        call_id = self._call_id(invocation, turn)
        recorded = known.get(call_id)
        if recorded is not None:
            self.ran.append(HostedInvocation(tool_name, _as_recorded(invocation, recorded)))
            return
        cost = await self.costs.cost(invocation, item.declaration.tool)
        if prepared is not None:
            call = self._make_call(prepared, call_id, turn)
            with in_provider_call(call):
                invocation = await hooked(call, invocation)
        invocation = replace(invocation, cost=cost)
        self.ran.append(HostedInvocation(tool_name, invocation))
        await record_provider_call(
            self._session, self._call(tool_name, invocation, call_id), Actor("rule", "declared")
        )

    def _call(self, tool_name: str, invocation: Invocation, call_id: str) -> ProviderCall:
        prepared = self._offered.get(tool_name)
        undeclared = ToolRef(tool_name, self._provider, "0.0.0", "", "provider")
        # A server's credentials may be repeated in any call: the model reads them too.
        hide = self._credentials.hide
        return ProviderCall(
            call_id=call_id,
            tool=prepared.ref if prepared else undeclared,
            provider=self._provider,
            capability=invocation.kind,
            params=self._credentials.hide_typed(invocation.params),
            value=self._credentials.hide_typed(invocation.value),
            message=hide(invocation.message),
            success=invocation.success,
            error=hide(invocation.error),
            raw=hide(dict(invocation.raw)),
            caller=self._caller,
            cost=invocation.cost,
        )

    def _call_id(self, invocation: Invocation, turn: int) -> str:
        """The provider's id, or one from the call's position where the ledger cannot keep that."""
        by_position = f"{invocation.kind}_{turn}_{len(self.ran) + 1}"
        return invocation.item_id if is_sound_id(invocation.item_id) else by_position

    def _invocation(self, item: HostedCallItem, raws: Sequence[RawItem]) -> Invocation:
        codec, tool = item.declaration.codec, item.declaration.tool
        try:
            if isinstance(codec, Codec):
                return codec.invocation(item.raw, raws, tool)
            return _minimal_invocation(item)
        except PromptEvaluationError:
            raise
        except Exception as error:
            raise PromptEvaluationError(
                f"the codec of {tool.kind} could not read a call: {type(error).__name__}: {error}",
                prompt_name=self._prompt_name,
                phase="parse",
            ) from error


def _minimal_invocation(item: HostedCallItem) -> Invocation:
    """The invocation for a codec that only parses whole outputs: it gets this call alone."""
    codec, tool = item.declaration.codec, item.declaration.tool
    return Invocation(
        item_id=item.item_id,
        kind=tool.kind,
        params=None,
        value=None if item.failure else codec.parse_output([item.raw], tool),
        message=item.failure or item.status or "completed",
        success=item.failure is None,
        error=item.failure,
        raw=item.raw,
    )


def _as_recorded(invocation: Invocation, event: ToolInvoked) -> Invocation:
    """The invocation as it was recorded, after an output hook may have changed it."""
    error = event.failure.message if event.failure else None
    return replace(
        invocation, message=event.message, success=event.success, error=error, cost=event.cost
    )
