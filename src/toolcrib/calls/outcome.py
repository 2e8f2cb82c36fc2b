"""How a call ended, or that it waits."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toolcrib.errors import ApprovalRequired, CallFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolcrib.approval.request import ApprovalRequest
    from toolcrib.calls.failure import Failure
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
            case "waiting":
                metadata = self.approval.metadata if self.approval else None
                raise ApprovalRequired(metadata, request=self.approval)
            case "failed":
                if self.error is not None:
                    raise self.error
                assert self.failure is not None
                raise CallFailed(self.failure)
