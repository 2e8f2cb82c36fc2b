"""Shells: the model writes commands. Three tools differ in who runs them and in their kind.

- `container_shell_tool`, kind `shell`: the provider runs the commands in a container.
- `handler_shell_tool`, kind `shell`: a handler of the application runs them on this machine.
- `legacy_shell_tool`, kind `local_shell`: a handler runs one command per call, for models of the
  first generation that know no other shell.
"""

from __future__ import annotations

from typing import Final, Unpack

from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.provider_tools import (
    ConfigFunction,
    HostedFields,
    HostedTool,
    ProviderTool,
    declared_config,
)
from toolcrib.tools.rules import ToolRules
from toolcrib.tools.shell.types import (
    CommandOutput,
    ContainerShellConfig,
    HandlerShellConfig,
    InlineSkill,
    LegacyShellConfig,
    LegacyShellParams,
    LocalSkill,
    ShellParams,
    ShellResult,
    Skill,
    SkillReference,
)
from toolcrib.tools.tool import Handler

__all__ = [
    "KIND",
    "LEGACY_KIND",
    "CommandOutput",
    "ContainerShellConfig",
    "HandlerShellConfig",
    "InlineSkill",
    "LegacyShellConfig",
    "LegacyShellParams",
    "LocalSkill",
    "ShellParams",
    "ShellResult",
    "Skill",
    "SkillReference",
    "container_shell_tool",
    "handler_shell_tool",
    "legacy_shell_tool",
]

KIND: Final = ContainerShellConfig.kind
LEGACY_KIND: Final = LegacyShellConfig.kind

_NEW_CONTAINER: Final = ContainerShellConfig()
_NO_SKILLS: Final = HandlerShellConfig()


def container_shell_tool(
    config: ContainerShellConfig | ConfigFunction[ContainerShellConfig] = _NEW_CONTAINER,
    *,
    name: str = "shell",
    fallback: AnyFallback[ContainerShellConfig] = None,
    **fields: Unpack[HostedFields],
) -> HostedTool[ContainerShellConfig, ShellResult]:
    """Return a shell in a container that the provider runs."""
    return HostedTool[ContainerShellConfig, ShellResult](
        kind=KIND,
        name=name,
        description="Run shell commands that the model writes, in a sandboxed container.",
        config=declared_config(config),
        fallback=fallback,
        **fields,
    )


def handler_shell_tool(
    handler: Handler[ShellParams, ShellResult],
    config: HandlerShellConfig = _NO_SKILLS,
    *,
    name: str = "shell",
    provider: str = "openai",
    **rules: Unpack[ToolRules],
) -> ProviderTool[ShellParams, ShellResult, HandlerShellConfig]:
    """Return a shell whose commands `handler` runs. The handler decides where, as which user and
    how confined they run.

    Each call needs an approval unless `requires_approval=False` is passed.
    """
    chosen: ToolRules = {"requires_approval": True, **rules}
    return ProviderTool[ShellParams, ShellResult, HandlerShellConfig](
        name=name,
        description="Run shell commands that the model writes, on this machine.",
        provider=provider,
        config=config,
        handler=handler,
        **chosen,
    )


def legacy_shell_tool(
    handler: Handler[LegacyShellParams, CommandOutput],
    *,
    name: str = "local_shell",
    provider: str = "openai",
    **rules: Unpack[ToolRules],
) -> ProviderTool[LegacyShellParams, CommandOutput, LegacyShellConfig]:
    """Return a first-generation shell (`local_shell`), for models that know no other.

    `handler` runs one command per call. Each call needs an approval unless
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
