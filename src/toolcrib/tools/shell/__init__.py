"""Shell: the model writes commands, which run in the provider's container or here."""

from __future__ import annotations

from typing import Final, Unpack

from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.provider_tools import HostedTool, ProviderTool
from toolcrib.tools.rules import ToolRules
from toolcrib.tools.shell.types import (
    CommandOutput,
    InlineSkill,
    LocalShellConfig,
    LocalSkill,
    ShellConfig,
    ShellParams,
    ShellResult,
    Skill,
    SkillReference,
)
from toolcrib.tools.tool import Handler

__all__ = [
    "KIND",
    "CommandOutput",
    "InlineSkill",
    "LocalShellConfig",
    "LocalSkill",
    "ShellConfig",
    "ShellParams",
    "ShellResult",
    "Skill",
    "SkillReference",
    "local_shell_tool",
    "shell_tool",
]

KIND: Final = ShellConfig.kind

_NEW_CONTAINER: Final = ShellConfig()
_NO_SKILLS: Final = LocalShellConfig()


def shell_tool(
    config: ShellConfig = _NEW_CONTAINER,
    *,
    name: str = "shell",
    fallback: AnyFallback[ShellConfig] = None,
) -> HostedTool[ShellConfig]:
    """A shell in a container that the provider runs."""
    return HostedTool[ShellConfig](
        kind=KIND,
        name=name,
        description="Run shell commands that the model writes, in a sandboxed container.",
        config=config,
        fallback=fallback,
    )


def local_shell_tool(
    handler: Handler[ShellParams, ShellResult],
    config: LocalShellConfig = _NO_SKILLS,
    *,
    name: str = "shell",
    provider: str = "openai",
    **rules: Unpack[ToolRules],
) -> ProviderTool[ShellParams, ShellResult, LocalShellConfig]:
    """A shell that `handler` runs: where, as whom and how confined is for it to say.

    A person is asked about each call unless `requires_approval=False` is passed.
    """
    chosen: ToolRules = {"requires_approval": True, **rules}
    return ProviderTool[ShellParams, ShellResult, LocalShellConfig](
        name=name,
        description="Run shell commands that the model writes, on this machine.",
        provider=provider,
        config=config,
        handler=handler,
        **chosen,
    )
