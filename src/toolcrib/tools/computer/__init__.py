"""Computer use: the model looks at screenshots and says what to do; a handler here does it.

`computer_tool` is run by this process: its handler gets the actions, performs them on a screen of
its own choice, and returns a screenshot. The provider may attach safety checks to a call: a person
must approve such a call, and the approval is what acknowledges them; a grant does not.
"""

from __future__ import annotations

from typing import Any, Final, Unpack

from toolcrib.errors import ApprovalRequired
from toolcrib.tools.computer.types import (
    ComputerAction,
    ComputerConfig,
    ComputerParams,
    SafetyCheck,
    Screen,
    ScreenPoint,
    Screenshot,
)
from toolcrib.tools.context import ToolContext
from toolcrib.tools.invoke import bind
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.rules import ToolRules
from toolcrib.tools.tool import Handler, Tool

__all__ = [
    "KIND",
    "ComputerAction",
    "ComputerConfig",
    "ComputerParams",
    "SafetyCheck",
    "Screen",
    "ScreenPoint",
    "Screenshot",
    "computer_tool",
]

KIND: Final = ComputerConfig.kind

_NEWEST: Final = ComputerConfig()


def computer_tool(
    handler: Handler[ComputerParams, Screenshot],
    config: ComputerConfig = _NEWEST,
    *,
    name: str = "computer",
    provider: str = "openai",
    **rules: Unpack[ToolRules],
) -> ProviderTool[ComputerParams, Screenshot, ComputerConfig]:
    """Return a computer that `handler` operates. Calls run one at a time, in the model's order.

    A call with safety checks waits for a person, whatever rules and grants say; pass
    `requires_approval=True` to have every call approved.
    """
    chosen: ToolRules = {"one_at_a_time": True, **rules}
    return ProviderTool[ComputerParams, Screenshot, ComputerConfig](
        name=name,
        description="Operate a computer: look at its screen, click and type.",
        provider=provider,
        config=config,
        handler=_guarded(name, handler),
        params_type=ComputerParams,
        result_type=Screenshot,
        **chosen,
    )


def _guarded(name: str, handler: Handler[ComputerParams, Screenshot]) -> Any:
    """The handler behind the provider's safety checks."""
    bound = bind(
        Tool[ComputerParams, Screenshot](
            name=name, description="A computer.", handler=handler, params_type=ComputerParams
        )
    )

    def operate(params: ComputerParams, *, context: ToolContext) -> Any:
        _check_safety(params, context)
        return bound.invoke(params, context)

    async def operate_async(params: ComputerParams, *, context: ToolContext) -> Any:
        _check_safety(params, context)
        return await bound.invoke(params, context)

    return operate_async if bound.is_async else operate


def _check_safety(params: ComputerParams, context: ToolContext) -> None:
    if params.safety_checks and not context.approved_when_asked:
        concerns = [
            {"id": check.id, "code": check.code, "message": check.message}
            for check in params.safety_checks
        ]
        raise ApprovalRequired({"safety_checks": concerns}, ignore_grants=True)
