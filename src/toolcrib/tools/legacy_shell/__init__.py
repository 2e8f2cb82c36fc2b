"""The first local shell (`local_shell`), for the models that know no other.

Newer models take `toolcrib.tools.shell`.
"""

from __future__ import annotations

from typing import Final, Unpack

from toolcrib.tools.legacy_shell.types import LegacyShellConfig, LegacyShellParams
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.rules import ToolRules
from toolcrib.tools.shell.types import CommandOutput
from toolcrib.tools.tool import Handler

__all__ = ["KIND", "LegacyShellConfig", "LegacyShellParams", "legacy_shell_tool"]

KIND: Final = LegacyShellConfig.kind


def legacy_shell_tool(
    handler: Handler[LegacyShellParams, CommandOutput],
    *,
    name: str = "local_shell",
    provider: str = "openai",
    **rules: Unpack[ToolRules],
) -> ProviderTool[LegacyShellParams, CommandOutput, LegacyShellConfig]:
    """A command line that `handler` runs. A person is asked about each call unless
    `requires_approval=False` is passed.
    """
    chosen: ToolRules = {"requires_approval": True, **rules}
    return ProviderTool[LegacyShellParams, CommandOutput, LegacyShellConfig](
        name=name,
        description="Run a command that the model writes, on this machine.",
        provider=provider,
        config=LegacyShellConfig(),
        handler=handler,
        **chosen,
    )
