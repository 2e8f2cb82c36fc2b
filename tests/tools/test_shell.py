"""Shells: their options, their outputs and their factories."""

import dataclasses
from typing import Any

import pytest

from tests.calls.runs import run
from toolcrib.errors import InvalidTool
from toolcrib.tools.code_interpreter import AutoContainer, ExistingContainer
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.shell import (
    CommandOutput,
    ContainerShellConfig,
    HandlerShellConfig,
    InlineSkill,
    LegacyShellConfig,
    LegacyShellParams,
    LocalSkill,
    ShellParams,
    ShellResult,
    SkillReference,
    container_shell_tool,
    handler_shell_tool,
    legacy_shell_tool,
)


def echo(params: ShellParams) -> ShellResult:
    return ShellResult(tuple(CommandOutput(each, exit_code=0) for each in params.commands))


def echo_words(params: LegacyShellParams) -> CommandOutput:
    return CommandOutput(" ".join(params.command))


def test_a_shell_in_a_container_is_the_providers() -> None:
    """N14, H41: no handler, a new container unless another is named."""
    tool = container_shell_tool()

    assert isinstance(tool, HostedTool)
    assert (tool.kind, tool.name, tool.place) == ("shell", "shell", "provider")
    assert tool.config.container == AutoContainer()


@pytest.mark.parametrize("tool", [handler_shell_tool(echo), legacy_shell_tool(echo_words)])
def test_a_shell_with_a_handler_is_ours(tool: Any) -> None:
    """P3: the provider defines it, this process runs it, and a person is asked first."""
    assert (tool.provider, tool.place, tool.requires_approval) == ("openai", "local", True)


async def test_commands_reach_the_handler_and_nothing_else() -> None:
    """P3: no shell of ours runs anything."""
    done = await run(handler_shell_tool(echo, requires_approval=False), {"commands": ["a", "b"]})
    old = await run(legacy_shell_tool(echo_words, requires_approval=False), {"command": ["a", "b"]})

    assert done.outcome.text == "a\nb"
    assert old.outcome.text == "a b"


async def test_without_a_yes_no_command_runs() -> None:
    """R42: a call waits unless somebody decided otherwise beforehand."""
    ran: list[ShellParams] = []

    def note(params: ShellParams) -> ShellResult:
        ran.append(params)
        return ShellResult()

    done = await run(handler_shell_tool(note), {"commands": ["rm -rf /"]})

    assert (done.outcome.status, ran) == ("waiting", [])


@pytest.mark.parametrize("arguments", [{}, {"commands": "ls"}, {"commands": ["ls"], "shell": "sh"}])
async def test_unsound_commands_are_refused(arguments: dict[str, Any]) -> None:
    """R45: before anybody is asked."""
    assert (await run(handler_shell_tool(echo), arguments)).failure == "invalid_arguments"


def test_a_result_tells_which_command_failed() -> None:
    """X9: by its number, and how; what is not known is no failure."""
    assert ShellResult((CommandOutput(exit_code=0), CommandOutput())).fault is None
    assert ShellResult((CommandOutput(), CommandOutput(exit_code=2))).fault == (
        "command 2 ended with exit code 2"
    )
    assert ShellResult((CommandOutput(timed_out=True),)).fault == "command 1 timed out"


def test_a_result_renders_what_was_printed() -> None:
    """H6: both streams, and how it ended unless well."""
    outputs = (
        CommandOutput("a\n", "b\n", 0),
        CommandOutput(),
        CommandOutput("", "c", 1),
        CommandOutput("half", timed_out=True),
    )

    assert ShellResult(outputs).render() == ("a\nb\nc\n[ended with exit code 1]\nhalf\n[timed out]")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ContainerShellConfig(container="cntr_1"),  # pyright: ignore[reportArgumentType]
        lambda: ContainerShellConfig(skills=[SkillReference("s")]),  # pyright: ignore[reportArgumentType]
        lambda: ContainerShellConfig(skills=(LocalSkill("a", "b", "c"),)),  # pyright: ignore[reportArgumentType]
        lambda: ContainerShellConfig(skills=(SkillReference("s"),) * 201),
        lambda: ContainerShellConfig(ExistingContainer("cntr_1"), (SkillReference("s"),)),
        lambda: HandlerShellConfig((SkillReference("s"),)),  # pyright: ignore[reportArgumentType]
        lambda: SkillReference(""),
        lambda: SkillReference("s", " "),
        lambda: InlineSkill("", "b", b"z"),
        lambda: InlineSkill("a", "", b"z"),
        lambda: InlineSkill("a", "b", b""),
        lambda: InlineSkill("a", "b", "zip"),  # pyright: ignore[reportArgumentType]
        lambda: LocalSkill("", "b", "c"),
        lambda: LocalSkill("a", "", "c"),
        lambda: LocalSkill("a", "b", ""),
    ],
)
def test_unsound_options_are_refused(make: Any) -> None:
    """H2: when they are made."""
    with pytest.raises(InvalidTool):
        make()


@pytest.mark.parametrize(
    "made",
    [
        ContainerShellConfig(),
        HandlerShellConfig(),
        SkillReference("s"),
        InlineSkill("a", "b", b"z"),
        LocalSkill("a", "b", "c"),
    ],
)
def test_options_are_frozen_and_slotted(made: Any) -> None:
    """H2: options cannot change after their check."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(made)[0].name, None)
    assert not hasattr(made, "__dict__")


def test_the_first_shell_has_no_options() -> None:
    """Facts 1.1: its configuration only marks it."""
    assert legacy_shell_tool(echo_words).config == LegacyShellConfig()
