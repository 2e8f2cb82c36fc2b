"""Operations on the tools and calls of a live session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from toolcrib.approval.tool_names import did_you_mean
from toolcrib.calls.tool_table import is_visible
from toolcrib.errors import Refused, UsageError
from toolcrib.features.declaration import FEATURE_TOOLS, missing_feature
from toolcrib.ledger.encoding import encode_value, plain_facts
from toolcrib.runtime.messages import ArtifactPage, CallResult, OneArtifact, ToolFacts, Tools
from toolcrib.session.artifacts import Artifacts
from toolcrib.tools.prepared_tool import is_available, prepare

if TYPE_CHECKING:
    from toolcrib.approval.caller import Caller
    from toolcrib.calls.outcome import Outcome
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.store.store import Store
    from toolcrib.tools.argument_names import Spellings
    from toolcrib.tools.prepared_tool import PreparedTool


async def cancel_call(live: LiveSession, call_id: str) -> bool:
    """Cancel a running call, or withdraw a waiting one; False when there is neither."""
    if live.executor.cancel(call_id):
        return True
    if not live.executor.is_waiting(call_id):
        return False
    try:
        await live.executor.withdraw(call_id)
    except UsageError:
        # Another request resumed or ended the call in the meantime.
        return live.executor.cancel(call_id)
    return True


def call_result(outcome: Outcome) -> CallResult:
    """The result that a client gets for an outcome."""
    return CallResult(
        call_id=outcome.call_id,
        tool=outcome.tool,
        status=outcome.status,
        text=outcome.text,
        value=_as_json(outcome.value),
        failure=outcome.failure,
        approval_id=outcome.approval.approval_id if outcome.approval else None,
        artifact_id=outcome.artifact_id,
        metadata=plain_facts(dict(outcome.metadata)) if outcome.metadata else {},
    )


def artifact_page(store: Store, params: OneArtifact, most_chars: int) -> ArtifactPage:
    """A page of an artifact. Raises `Refused` (not_found)."""
    artifacts = Artifacts(store, params.session_id)
    try:
        page = artifacts.read(
            params.artifact_id,
            offset=params.offset,
            limit=min(params.limit or most_chars, most_chars),
        )
    except UsageError as error:
        raise Refused("not_found", str(error)) from None
    return ArtifactPage(
        artifact_id=params.artifact_id,
        text=page.text,
        media_type="text/plain",
        offset=page.offset,
        total_chars=page.total_chars,
        next_offset=page.next_offset,
    )


def _as_json(value: Any) -> Any:
    """A typed value as JSON, as in the ledger."""
    if value is None or type(value) in (str, bool, int):
        return value
    return from_json(encode_value(value))


def tools_of(live: LiveSession, category: str | None, caller: Caller) -> Tools:
    """The tools of a session that the caller sees, all or of one category."""
    own = [
        tool
        for tool in live.executor.tools.values()
        if is_available(tool.tool) and is_visible(tool.tool, caller)
    ]
    tools = [tool_facts(live, tool) for tool in [*own, *live.hosted.values()]]
    listed = [facts for facts in tools if category in (None, facts.category)]
    return Tools(tools=listed, unavailable=live.unavailable_to(caller))


def tool_of(live: LiveSession, name: str, caller: Caller) -> ToolFacts:
    """One tool. Raises `Refused` (not_found)."""
    if name in FEATURE_TOOLS and live.tools.is_wanted(name):
        # No list has it; what reads go through is no secret.
        return tool_facts(live, prepare(missing_feature(name)))
    tool = live.executor.tools.get(name) or live.hosted.get(name)
    if tool is None or not is_available(tool.tool) or not is_visible(tool.tool, caller):
        reason = live.unavailable_to(caller).get(name)
        # Only among the tools that the caller may list.
        others = [
            each for each, other in live.executor.tools.items() if is_visible(other.tool, caller)
        ]
        hint = f": {reason}" if reason else did_you_mean(name, others)
        raise Refused("not_found", f"the session has no tool {name[:128]!r}{hint}")
    return tool_facts(live, tool)


def tool_facts(live: LiveSession, prepared: PreparedTool) -> ToolFacts:
    """The description of a tool that a client gets."""
    tool, ref = prepared.tool, prepared.ref
    parameters: dict[str, Any] = dict(prepared.declaration.parameters)
    names = prepared.params.names
    spellings: Spellings = {} if names is None else names.spellings
    return ToolFacts(
        name=ref.name,
        description=prepared.declaration.description,
        parameters=parameters,
        source=ref.source,
        place=ref.place,
        scope="session" if live.is_own(ref.name) else "global",
        version=ref.version,
        digest=ref.digest,
        requires_approval=tool.requires_approval,
        is_read_only=tool.is_read_only,
        is_idempotent=tool.is_idempotent,
        category=tool.category,
        timeout=tool.timeout,
        deprecated=tool.deprecated,
        uses=list(tool.uses),
        output_schema=None if tool.output_schema is None else dict(tool.output_schema),
        argument_names={name: list(keys) for name, keys in spellings.items()},
    )
