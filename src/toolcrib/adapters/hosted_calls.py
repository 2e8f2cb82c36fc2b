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
from typing import TYPE_CHECKING, Any, assert_never

from pydantic_core import to_json

from toolcrib.adapters.answer import answer_items, codec_view
from toolcrib.adapters.cited_files import cites_files, files_of_value, with_files
from toolcrib.adapters.codec import Codec, Invocation, RawItem
from toolcrib.adapters.hosted_costs import HostedCosts
from toolcrib.adapters.hosted_outputs import ToolRuns
from toolcrib.adapters.items import (
    ContextItem,
    HostedCallItem,
    ModelMessage,
    ReasoningItem,
    ReplyItem,
    ToolCallItem,
    UnknownItem,
    is_sound_id,
    readable,
    text_of,
    tool_calls,
)
from toolcrib.adapters.type_fit import adapter_of, as_declared
from toolcrib.approval.decision import Actor
from toolcrib.calls.provider_calls import (
    ProviderCall,
    in_provider_call,
    record_provider_call,
    recorded_value,
)
from toolcrib.errors import PromptEvaluationError
from toolcrib.ledger.prompt_events import FilesCited
from toolcrib.tools.identity import ToolRef
from toolcrib.tools.output_hook import (
    checked_result,
    failed_output,
    hook_failure,
    output_hook_of,
)

if TYPE_CHECKING:
    from toolcrib.adapters.credentials import Credentials
    from toolcrib.adapters.tool_calls import ItemFormat
    from toolcrib.adapters.tool_declarations import HostedDeclaration
    from toolcrib.approval.caller import Caller
    from toolcrib.calls.call import Call
    from toolcrib.ledger.events import ToolInvoked
    from toolcrib.ledger.prompt_events import ModelStatus
    from toolcrib.session.session import Session
    from toolcrib.tools.citations import GeneratedFile
    from toolcrib.tools.prepared_tool import PreparedTool
    from toolcrib.tools.result import ToolResult


logger = logging.getLogger(__name__)


async def hooked(call: Call, invocation: Invocation) -> Invocation:
    """The invocation after the tool's output hook; unchanged without a hook and when the hook
    returns None. A hook that fails makes a failed call, not a failed prompt.
    """
    tool, context = call.tool.tool, call.context
    hook = output_hook_of(tool)
    if hook is None or context is None:
        return invocation
    value = invocation.value
    if value is None:
        status = text_of(invocation.raw, "status") or "failed"
        value = failed_output(tool, invocation.error or invocation.message, status)
    try:
        # In a thread, so that a hook may evaluate another prompt and wait for it.
        result: Any = await asyncio.to_thread(hook, value, context)
        if inspect.isawaitable(result):
            result = await result
        result = checked_result(result)
    except Exception as error:
        logger.exception("handle_provider_output of %s failed", tool.name)
        parts = [hook_failure(error), f"the call: {invocation.error}" if invocation.error else ""]
        text = "; ".join(filter(None, parts))
        return replace(
            invocation, success=False, error=text, message=text, failure_kind="hook_error"
        )
    return invocation if result is None else _with_result(invocation, result)


def _with_result(invocation: Invocation, result: ToolResult[Any]) -> Invocation:
    """What the hook says of the call is what the call is: a failure of the hook's making is the
    tool's, and one of the provider's may be none.
    """
    return replace(
        invocation,
        value=result.value,
        message=result.message or invocation.message,
        success=result.success,
        error=None if result.success else result.message or invocation.error,
        failure_kind=invocation.failure_kind if result.success else "tool_error",
    )


MakeCall = Callable[["PreparedTool", str, int], "Call"]


@dataclass(frozen=True, slots=True)
class HostedInvocation:
    """A provider-run call of a turn, under the name of its tool."""

    name: str
    call_id: str
    """Its id in the ledger."""
    item: HostedCallItem
    reading: Invocation
    """As the codec read it, in the codec's types."""
    invocation: Invocation
    """As it counts: in the tool's own types, after its output hook."""
    is_replaced: bool = False
    """Whether the output hook put another value in place of the provider's."""


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
        self._items: list[ReplyItem] = []
        self._watched: dict[str, tuple[float, float]] = {}
        self.ran: list[HostedInvocation] = []
        self.skipped: Counter[str] = Counter()
        self.costs = HostedCosts(session, provider)

    async def record(
        self,
        items: Sequence[ReplyItem],
        turn: int,
        status: ModelStatus,
        known: Mapping[str, ToolInvoked],
        cited: Mapping[str, FilesCited] | None = None,
    ) -> None:
        """Account for every item of one step, for calls of earlier steps that end in it, and for
        files of earlier calls that it cites. What is in `known` and `cited`, by call id, is in the
        ledger already and is not recorded again.
        """
        whole = [*self._paused, *items]
        self._paused = whole if status == "paused" else []
        self._items.extend(items)
        # A step that asks for calls, or whose request is made again, holds no answer.
        is_last = status == "completed" and not tool_calls(whole)
        answer = answer_items(whole) if is_last else []
        # The files that a step cites may be those of any call before.
        is_citing = any(map(cites_files, items))
        raws = codec_view(self._items if is_citing else whole, answer, self._format)
        earlier = len(self.ran)
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
        if is_citing:
            for index in range(earlier):
                await self._complete(index, raws, turn, cited or {})

    def watch(self, item_id: str) -> None:
        """A streamed call got further now: it runs from the first such moment to the last."""
        now = self._session.clock()
        first, _ = self._watched.get(item_id, (now, now))
        self._watched[item_id] = first, now

    def runs_of(self, declaration: HostedDeclaration, raws: Sequence[RawItem]) -> ToolRuns:
        """The calls of a declared tool so far, with the items of the turn."""
        name = declaration.tool.name
        prepared = self._offered.get(name)
        calls = [call for call in self.ran if call.name == name]
        return ToolRuns(declaration, prepared.tool if prepared else declaration.tool, calls, raws)

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
        reading = self._invocation(item, raws)
        declared = self._declared(tool_name, reading)
        call_id = self._call_id(reading, turn)
        recorded = known.get(call_id)
        if recorded is not None:
            invocation = self._as_recorded(tool_name, item, declared, recorded)
        else:
            cost = await self.costs.cost(reading, item.declaration.tool)
            invocation = await self._hooked(tool_name, declared, call_id, turn)
            invocation = replace(invocation, cost=cost)
        is_replaced = invocation.value is not declared.value
        self.ran.append(
            HostedInvocation(tool_name, call_id, item, reading, invocation, is_replaced)
        )
        if recorded is None:
            await record_provider_call(
                self._session, self._call(tool_name, invocation, call_id), Actor("rule", "declared")
            )

    async def _complete(
        self, index: int, raws: Sequence[RawItem], turn: int, cited: Mapping[str, FilesCited]
    ) -> None:
        """Add the files to a call that messages after it cite, here and in the ledger."""
        ran = self.ran[index]
        if not hasattr(ran.reading.value, "files"):
            return
        reading = self._invocation(ran.item, raws)
        files: tuple[GeneratedFile, ...] = reading.value.files
        if files == ran.reading.value.files:
            return
        if ran.is_replaced:
            value = with_files(ran.invocation.value, files)
        else:
            value = self._declared(ran.name, reading).value
        invocation = replace(ran.invocation, value=value)
        self.ran[index] = replace(ran, reading=reading, invocation=invocation)
        hide = self._credentials.hide
        known = files_of_value(value) or files
        shown = tuple(replace(file, filename=hide(file.filename)) for file in known)
        if ran.call_id not in cited or cited[ran.call_id].files != shown:
            await self._record_files(ran, shown, turn)

    async def _record_files(
        self, ran: HostedInvocation, files: tuple[GeneratedFile, ...], turn: int
    ) -> None:
        session = self._session
        await session.record(
            FilesCited(
                session_id=session.session_id,
                at=session.clock(),
                turn=turn,
                call_id=ran.call_id,
                tool=ran.name,
                files=files,
            )
        )

    def _declared(self, tool_name: str, reading: Invocation) -> Invocation:
        """The call in the types that its tool declares, if it declares any."""
        prepared = self._offered.get(tool_name)
        if prepared is None or not (prepared.tool.params_type or prepared.tool.result_type):
            return reading
        return as_declared(prepared.tool, reading)

    async def _hooked(
        self, tool_name: str, invocation: Invocation, call_id: str, turn: int
    ) -> Invocation:
        prepared = self._offered.get(tool_name)
        if prepared is None:
            return invocation
        call = self._make_call(prepared, call_id, turn)
        with in_provider_call(call):
            return await hooked(call, invocation)

    def _as_recorded(
        self,
        tool_name: str,
        item: HostedCallItem,
        declared: Invocation,
        event: ToolInvoked,
    ) -> Invocation:
        """The invocation as it was recorded, after an output hook may have changed it: the hook
        does not run again, and its value comes back in the tool's type.
        """
        error = event.failure.message if event.failure else None
        value = declared.value
        shown = self._call(tool_name, declared, event.call_id).value
        if event.value != recorded_value(shown):
            prepared = self._offered.get(tool_name)
            own: type[Any] | None = getattr(item.declaration.codec, "result_type", None)
            whole = self._session.artifacts.whole(event.value, event.kept)
            value = from_record(whole, (prepared and prepared.tool.result_type) or own)
        return replace(
            declared,
            value=value,
            message=event.message,
            success=event.success,
            error=error,
            failure_kind=event.failure.kind if event.failure else declared.failure_kind,
            cost=event.cost,
        )

    def _call(self, tool_name: str, invocation: Invocation, call_id: str) -> ProviderCall:
        prepared = self._offered.get(tool_name)
        undeclared = ToolRef(tool_name, self._provider, "0.0.0", "", "provider")
        # A server's credentials may be repeated in any call: the model reads them too.
        hide = self._credentials.hide
        first, last = self._watched.get(invocation.item_id, (0.0, 0.0))
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
            failure_kind=invocation.failure_kind,
            raw=hide(dict(invocation.raw)),
            caller=self._caller,
            cost=invocation.cost,
            duration_seconds=last - first,
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
        value=None if item.failure else codec.parse_output([readable(item.raw)], tool),
        message=item.failure or item.status or "completed",
        success=item.failure is None,
        error=item.failure,
        raw=item.raw,
    )


def from_record(value: Any, wanted: type[Any] | None) -> Any:
    """A value of a ledger in the type that it had; plain JSON when it does not fit that type."""
    adapter = None if wanted is None or value is None else adapter_of(wanted)
    if adapter is None:
        return value
    try:
        return adapter.validate_json(to_json(value))
    except ValueError:
        return value
