"""A host tool as a session holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.errors import UsageError
from toolcrib.host_tools.definition import HostToolDefinition
from toolcrib.tools.context import ToolContext
from toolcrib.tools.result import ToolResult

if TYPE_CHECKING:
    from toolcrib.calls.executor import Executor


class HostTool:
    """A definition bound to the context of one session.

    `execute` takes the same path as every call, through the session's executor or one that is made
    when it is first needed. Without either it gets one in memory, so a definition can be tried by
    itself.
    """

    def __init__(
        self,
        definition: HostToolDefinition,
        context: ToolContext,
        executor: Executor | Callable[[], Executor] | None = None,
    ) -> None:
        self._definition = definition
        self._context = context
        self._executor = executor or (lambda: own_executor(context, [definition]))

    @property
    def name(self) -> str:
        """The tool's name."""
        return self._definition.name

    @property
    def description(self) -> str:
        """What the model reads about the tool."""
        return self._definition.description

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the input."""
        return self._definition.parameters

    @property
    def input_schema(self) -> dict[str, Any]:
        """The same schema, by the name that other protocols use."""
        return self._definition.parameters

    @property
    def requires_approval(self) -> bool:
        """Whether a person must approve every call."""
        return self._definition.requires_approval

    async def execute(self, input: Mapping[str, Any]) -> ToolResult[Any]:
        """Call the tool. Failures are results with `success` false, never exceptions.

        `metadata` then says why: `failure` is the kind of failure, `approval_id` the request that
        a call waits for.
        """
        executor = self._ready_executor()
        try:
            outcome = await executor.call(self.name, input)
        except UsageError as error:
            # The input is not JSON: no client could have sent it, and nothing has run.
            refused = {"failure": "invalid_arguments"}
            return ToolResult(success=False, message=str(error), metadata=refused)
        metadata = dict(outcome.metadata)
        if outcome.failure is not None:
            metadata["failure"] = outcome.failure.kind
        if outcome.approval is not None:
            metadata["approval_id"] = outcome.approval.approval_id
        return ToolResult(
            value=outcome.value, message=outcome.text, success=outcome.ok, metadata=metadata
        )

    def _ready_executor(self) -> Executor:
        if callable(self._executor):
            self._executor = self._executor()
        return self._executor


def own_executor(context: ToolContext, definitions: Iterable[HostToolDefinition]) -> Executor:
    """An executor in memory, in a session like that of `context`."""
    from toolcrib.calls.executor import Executor
    from toolcrib.session.session import Session

    session = Session(
        context.session_id,
        cwd=context.cwd,
        environment=context.environment,
        metadata=context.metadata,
        deps=context.deps,
        bus=context.bus,
    )
    return Executor(session, definitions)
