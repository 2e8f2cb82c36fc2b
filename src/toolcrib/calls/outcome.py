"""Requests, limits and outcomes: what goes into an executor and what comes out of it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from toolcrib.approval.caller import Caller
from toolcrib.calls.validate import RawArguments
from toolcrib.errors import ApprovalRequired, CallFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.failures import Failure
    from toolcrib.tools.result import ToolResult


Status = Literal["completed", "failed", "waiting"]

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Outcome(NamedTuple):
    """What a call came to. `text` is for the model, `value` for the application."""

    # A named tuple, because a frozen dataclass of this size takes as long to make as the arguments
    # take to validate, and every call makes one.

    call_id: str
    tool: str
    status: Status
    text: str
    value: Any = None
    failure: Failure | None = None
    approval: ApprovalRequest | None = None
    metadata: Mapping[str, Any] = NOTHING
    artifact_id: str | None = None
    error: BaseException | None = None
    """The exception behind a failure, for the developer."""
    is_plain: bool = False
    """True when `text` is the whole value, just rendered."""

    @property
    def ok(self) -> bool:
        """True when the tool (or whatever stood in its place) gave a result."""
        return self.status == "completed"

    @property
    def result(self) -> ToolResult[Any]:
        """The outcome as a `ToolResult`."""
        from toolcrib.tools.result import ToolResult

        return ToolResult(
            value=self.value, message=self.text, success=self.ok, metadata=self.metadata
        )

    def unwrap(self) -> Any:
        """The value, or the reason there is none as an exception.

        Raises the tool's own exception when it raised one, `ApprovalRequired` when the call
        waits, else `CallFailed`.
        """
        match self.status:
            case "completed":
                return self.value
            case "waiting" if self.error is not None:
                # It was handed over: what is missing is a result and not a decision.
                raise self.error
            case "waiting":
                metadata = self.approval.metadata if self.approval else None
                raise ApprovalRequired(metadata, request=self.approval)
            case "failed":
                if self.error is not None:
                    raise self.error
                assert self.failure is not None
                raise CallFailed(self.failure)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call to make."""

    name: str
    arguments: RawArguments = None
    call_id: str | None = None
    caller: Caller | None = None


async def run_all(
    works: Sequence[Callable[[], Awaitable[T]]], max_parallel: int | None = None
) -> list[T]:
    """Run everything, at most `max_parallel` at a time; results in the order given.

    When one raises (a lost lease, a cancellation), the others are cancelled and it is raised.
    """
    if max_parallel is not None and max_parallel < 1:
        raise UsageError(f"max_parallel must be 1 or more, not {max_parallel!r}")
    slots = asyncio.Semaphore(max_parallel) if max_parallel is not None else None

    async def run(work: Callable[[], Awaitable[T]]) -> T:
        if slots is None:
            return await work()
        async with slots:
            return await work()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(work)) for work in works]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of an executor. A tool's own `timeout` and `max_result_chars` come first."""

    timeout: float | None = None
    """Seconds for a tool that sets no timeout itself; None is no limit."""
    max_parallel: int | None = None
    """How many calls may run at once; nested calls do not count, or they could deadlock."""
    max_threads: int = 64
    """How many sync handlers may run at once."""
    max_depth: int = 8
    """How deep tools may call tools, and how deep prompts may be evaluated within calls."""
    question_seconds: float = 600.0
    """Seconds until a question of a handler expires, unless the handler says otherwise."""
    max_arguments_bytes: int = 1_000_000
    max_result_chars: int = 50_000

    def __post_init__(self) -> None:
        if self.timeout is not None and not (0 < self.timeout < math.inf):
            raise UsageError(
                f"timeout must be a finite number of seconds above 0, not {self.timeout!r}; "
                "for no limit pass None"
            )
        if not 0 < self.question_seconds < math.inf:
            raise UsageError(
                "question_seconds must be a finite number of seconds above 0, not "
                f"{self.question_seconds!r}"
            )
        for name in ("max_threads", "max_depth", "max_arguments_bytes", "max_result_chars"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be 1 or more, not {getattr(self, name)!r}")
        if self.max_parallel is not None and self.max_parallel < 1:
            raise UsageError(f"max_parallel must be 1 or more, not {self.max_parallel!r}")


DEFAULT_LIMITS: Final = Limits()
