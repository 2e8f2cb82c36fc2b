"""`GovernedToolset`: any pydantic-ai toolset, with its calls made through the executor."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.exceptions import ModelRetry, ToolFailed, UserError
from pydantic_ai.toolsets import (
    AbstractToolset,
    CombinedToolset,
    ToolsetTool,
    WrapperToolset,
)
from pydantic_core import from_json

from toolcrib.approval.tool_names import check_approval_list, check_hook_names
from toolcrib.calls.validate import encode_arguments
from toolcrib.errors import InvalidTool
from toolcrib.toolsets.agent_bridge.calls import AgentCalls
from toolcrib.toolsets.agent_bridge.governed_tool import (
    LISTING_HERE,
    ForeignTool,
    RunListing,
    check_early,
    govern_tool,
    is_governed,
)
from toolcrib.toolsets.agent_bridge.tools import AgentTool, invalid_arguments, raise_invalid
from toolcrib.toolsets.run_executor import DEFERRING, RunExecutor

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolDefinition

    from toolcrib.context import AgentContext
    from toolcrib.tools.prepared_tool import PreparedTool
    from toolcrib.toolsets.run_contexts import RunContexts
    from toolcrib.toolsets.run_executor import RunTerms

_MOST_RUNS: Final = 1_000
"""Of how many runs the toolset is remembered, the latest ones."""
_MOST_LISTINGS: Final = 8
"""For how many different lists of tools a context keeps its executors."""


@dataclass(kw_only=True)
class GovernedTool(AgentTool):
    """A tool of the wrapped toolset, and the listing that it is called from."""

    listing: RunListing
    calls: AgentCalls


@dataclass(frozen=True, slots=True)
class _KnownTool:
    definition: ToolDefinition
    args_validator: object
    foreign: ForeignTool


@dataclass(slots=True, eq=False)
class GovernedTools:
    """What a governed toolset keeps for all its runs: the terms, and the tools seen so far."""

    terms: RunTerms
    contexts: RunContexts
    source: str | None = None
    known: dict[str, _KnownTool] = field(default_factory=dict[str, _KnownTool])

    def prepare(self, name: str, tool: ToolsetTool[Any]) -> ForeignTool:
        """The tool for the executor: the same object as long as its definition is the same."""
        known = self.known.get(name)
        if (
            known is not None
            and known.args_validator is tool.args_validator
            and known.definition == tool.tool_def
        ):
            return known.foreign
        try:
            foreign = govern_tool(name, tool, self.source, self.terms.bind_to)
        except InvalidTool as error:
            raise UserError(f"The tool {name!r} cannot be governed: {error}") from error
        self.known[name] = _KnownTool(replace(tool.tool_def), tool.args_validator, foreign)
        return foreign

    def calls(
        self, context: AgentContext, tools: Iterable[PreparedTool], names: Collection[str]
    ) -> AgentCalls:
        """The calls of these tools in a context. Runs with the same tools share them. Raises
        `UsageError` for misspelt names in hooks and approval lists.
        """
        key = tuple(tools)
        listings: dict[tuple[PreparedTool, ...], AgentCalls] = context.bridges.setdefault(self, {})
        calls = listings.get(key)
        if calls is None:
            check_approval_list(context.need_user_approve_tools, names)
            if self.terms.hooks is not None:
                known = {*names, *self.known}
                check_hook_names(self.terms.hooks.names(), known)
            calls = listings[key] = AgentCalls(self._executor(context, key))
            if len(listings) > _MOST_LISTINGS:
                del listings[next(iter(listings))]
        return calls

    def _executor(self, context: AgentContext, tools: Iterable[PreparedTool]) -> RunExecutor:
        own = self.contexts.own
        is_own = own is None or own.session is context.session
        return RunExecutor(
            context.session,
            tools,
            host_session=None if is_own or own is None else own.session,
            runners=DEFERRING,
            **self.terms.options(),
        )


@dataclass
class GovernedToolset(WrapperToolset[Any]):
    """Passes everything on to the wrapped toolset, but makes its calls through the executor."""

    governed: GovernedTools

    @property
    def id(self) -> str | None:
        """The id of the wrapped toolset: durable agents name the toolset by it."""
        return self.wrapped.id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools that the wrapped toolset lists for this step. Those that an executor runs
        already are passed on as they are.
        """
        listed = await self.wrapped.get_tools(ctx)
        tools = {name: tool for name, tool in listed.items() if _is_foreign(tool)}
        foreign = {name: self.governed.prepare(name, tool) for name, tool in tools.items()}
        context = self.governed.contexts.of(ctx)
        prepared = [tool.prepared for tool in foreign.values()]
        calls = self.governed.calls(context, prepared, listed)
        await calls.settle(ctx)
        listing = RunListing(self.wrapped, tools, ctx)
        return {
            name: self._tool(foreign[name], tool, listing, calls) if name in foreign else tool
            for name, tool in listed.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call a tool through the executor; values and exceptions are pydantic-ai's."""
        if not isinstance(tool, GovernedTool):
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        before = LISTING_HERE.get()
        LISTING_HERE.set(replace(tool.listing, run=ctx))
        try:
            return await tool.calls.call(name, tool_args, ctx)
        finally:
            LISTING_HERE.set(before)

    def _tool(
        self, foreign: ForeignTool, tool: ToolsetTool[Any], listing: RunListing, calls: AgentCalls
    ) -> GovernedTool:
        definition = tool.tool_def
        if definition.defer:
            # The executor files the approval, or records that the call was handed over; then the
            # agent hears of it by the exceptions that it knows.
            definition = replace(definition, kind="function")
        validator = GovernedValidator(foreign, tool, listing.run)
        return GovernedTool(
            toolset=self,
            tool_def=definition,
            # Nothing else validates the arguments of an external tool, so it has no retries.
            max_retries=max(tool.max_retries, listing.run.max_retries)
            if tool.tool_def.kind == "external"
            else tool.max_retries,
            # It has the two methods that pydantic-ai uses.
            args_validator=validator,
            args_validator_func=_checker(foreign.prepared.ref.name, validator, calls),
            listing=listing,
            calls=calls,
        )


def _checker(name: str, validator: GovernedValidator, calls: AgentCalls) -> Callable[..., Any]:
    """The second step of validation: invalid arguments are recorded, and the tool's own check is
    asked.
    """

    async def refuse(run: RunContext[Any], raw: bytes) -> None:
        await calls.refuse(name, raw, run)

    raising = raise_invalid(refuse)

    async def check(ctx: RunContext[Any], **args: Any) -> None:
        await raising(ctx, **args)
        if validator.tool.args_validator_func is not None:
            raw = encode_arguments(args)
            try:
                await check_early(validator.tool, ctx, validator.values(raw, ctx))
            except (ModelRetry, ToolFailed) as error:
                await calls.refuse(name, raw, ctx, reason=error.message)
                raise

    return check


class GovernedValidator:
    """Validates by the wrapped tool's validator and returns the arguments as plain JSON values."""

    def __init__(self, foreign: ForeignTool, tool: ToolsetTool[Any], run: RunContext[Any]) -> None:
        self.tool = tool
        self._foreign = foreign
        self._run = run

    def validate_json(
        self, input: str | bytes | bytearray, *, allow_partial: Any = "off", **options: Any
    ) -> dict[str, Any]:
        """The arguments as JSON values, or as a dict of one `InvalidArguments`."""
        raw = input if isinstance(input, str) else bytes(input)
        if allow_partial not in (False, "off"):
            return self.tool.args_validator.validate_json(
                raw, allow_partial=allow_partial, **options
            )
        return self._validate(encode_arguments(raw))

    def validate_python(
        self, input: Any, *, allow_partial: Any = "off", **options: Any
    ) -> dict[str, Any]:
        """The same, for arguments that are a dict already."""
        if allow_partial not in (False, "off"):
            return self.tool.args_validator.validate_python(
                input, allow_partial=allow_partial, **options
            )
        return self._validate(encode_arguments(input))

    def values(self, raw: bytes, run: RunContext[Any]) -> dict[str, Any]:
        """The arguments as the tool takes them."""
        return self._foreign.parser.parse_for(self.tool, run, raw).values

    def _validate(self, raw: bytes) -> dict[str, Any]:
        try:
            self.values(raw, self._run)
        except ValueError as error:
            return invalid_arguments(self._foreign.prepared, raw, error)
        return from_json(raw)


def _is_foreign(tool: ToolsetTool[Any]) -> bool:
    return tool.tool_def.kind != "output" and not is_governed(tool)


def is_toolset(value: object) -> bool:
    """Whether a value is a toolset of pydantic-ai."""
    return isinstance(value, AbstractToolset)


def combined(
    own: AbstractToolset[Any],
    foreign: Iterable[AbstractToolset[Any]],
    terms: RunTerms,
    contexts: RunContexts,
) -> AbstractToolset[Any]:
    """A toolset of ours and toolsets of pydantic-ai as one, under the same terms."""
    governed = [GovernedToolset(toolset, GovernedTools(terms, contexts)) for toolset in foreign]
    return CombinedToolset([own, *governed])


class RunToolsets:
    """A toolset as each run has it. pydantic-ai asks a toolset that a function returns for nothing
    but its tools, so the run and its steps are announced here.
    """

    def __init__(self, toolset: AbstractToolset[Any]) -> None:
        self._toolset = toolset
        self._of_runs: OrderedDict[str | None, AbstractToolset[Any]] = OrderedDict()

    async def of(self, run: RunContext[Any]) -> AbstractToolset[Any]:
        """The toolset of this step of a run: the same object while nothing changes."""
        current = self._of_runs.pop(run.run_id, None)
        if current is None:
            current = await self._toolset.for_run(run)
        current = await current.for_run_step(run)
        self._of_runs[run.run_id] = current
        if len(self._of_runs) > _MOST_RUNS:
            self._of_runs.popitem(last=False)
        return current
