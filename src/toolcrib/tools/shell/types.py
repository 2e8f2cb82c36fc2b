"""Options, params and results of the shells, in words that no provider owns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias, cast

from toolcrib.errors import InvalidTool
from toolcrib.tools.citations import GeneratedFile
from toolcrib.tools.code_interpreter import AutoContainer, Container, ExistingContainer
from toolcrib.tools.code_interpreter.types import container_secrets
from toolcrib.tools.options import ToolCaller, check_callers, check_named, check_text
from toolcrib.tools.result import NamedFields

MOST_SKILLS: Final = 200


@dataclass(frozen=True, slots=True)
class SkillReference:
    """A skill stored at the provider, by its id."""

    id: str
    version: str | None = None
    """`None` takes the provider's default."""

    def __post_init__(self) -> None:
        check_named("SkillReference.id", self.id)
        check_text("SkillReference.version", self.version)


@dataclass(frozen=True, slots=True)
class InlineSkill:
    """A skill sent with the request, as a zip archive."""

    name: str
    description: str
    archive: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_named("InlineSkill.name", self.name)
        check_named("InlineSkill.description", self.description)
        if not isinstance(self.archive, bytes) or not self.archive:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool("InlineSkill.archive must be the bytes of a zip archive")


@dataclass(frozen=True, slots=True)
class LocalSkill:
    """A skill in a directory on the machine where the commands run."""

    name: str
    description: str
    path: str

    def __post_init__(self) -> None:
        check_named("LocalSkill.name", self.name)
        check_named("LocalSkill.description", self.description)
        check_named("LocalSkill.path", self.path)


Skill: TypeAlias = SkillReference | InlineSkill


@dataclass(frozen=True, slots=True)
class ContainerShellConfig:
    """The options of a shell in a container that the provider runs."""

    kind: ClassVar[str] = "shell"
    container: Container = field(default_factory=AutoContainer)
    skills: tuple[Skill, ...] = ()
    """Only for a new container: an existing container has its own."""
    allowed_callers: tuple[ToolCaller, ...] | None = None
    """Who may call it; `None` takes the provider's default, the model alone."""

    def __post_init__(self) -> None:
        check_callers("ContainerShellConfig.allowed_callers", self.allowed_callers)
        if not isinstance(self.container, AutoContainer | ExistingContainer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                "ContainerShellConfig.container must be an AutoContainer or an ExistingContainer, "
                f"not {self.container!r}"
            )
        _check_skills("ContainerShellConfig.skills", self.skills, (SkillReference, InlineSkill))
        if self.skills and isinstance(self.container, ExistingContainer):
            raise InvalidTool(
                "ContainerShellConfig.skills are for a new container; an existing one has its own"
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be recorded."""
        return container_secrets(self.container)


@dataclass(frozen=True, slots=True)
class HandlerShellConfig:
    """The options of a shell whose commands a handler runs."""

    kind: ClassVar[str] = "shell"
    skills: tuple[LocalSkill, ...] = ()
    allowed_callers: tuple[ToolCaller, ...] | None = None
    """Who may call it; `None` takes the provider's default, the model alone."""

    def __post_init__(self) -> None:
        check_callers("HandlerShellConfig.allowed_callers", self.allowed_callers)
        _check_skills("HandlerShellConfig.skills", self.skills, (LocalSkill,))


def _check_skills(option: str, skills: object, kinds: tuple[type[Any], ...]) -> None:
    if not isinstance(skills, tuple):
        raise InvalidTool(f"{option} must be a tuple of skills, not {type(skills).__name__}")
    members = cast("tuple[Any, ...]", skills)
    if len(members) > MOST_SKILLS:
        raise InvalidTool(f"{option} has {len(members)} skills; at most {MOST_SKILLS} are allowed")
    for skill in members:
        if not isinstance(skill, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise InvalidTool(f"{option}: {type(skill).__name__} is not {names}")


@dataclass(frozen=True, slots=True)
class ShellParams:
    """Commands to run, one after the other or concurrently, each in a shell of its own."""

    commands: list[str]
    timeout_ms: int | None = None
    """How long the commands may take."""
    max_output_length: int | None = None
    """How much output the model wants. The provider truncates the output, not the handler."""


@dataclass(frozen=True, slots=True)
class CommandOutput(NamedFields):
    """What one command printed and how it ended; `exit_code` is `None` when that is unknown."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    timed_out: bool = False

    @property
    def fault(self) -> str | None:
        """How the command failed, or `None` when no failure is known."""
        if self.timed_out:
            return "timed out"
        return f"ended with exit code {self.exit_code}" if self.exit_code else None

    def render(self) -> str:
        """Return both streams, followed by the fault if there is one."""
        ending = f"[{self.fault}]" if self.fault else ""
        return "\n".join(part.rstrip("\n") for part in (self.stdout, self.stderr, ending) if part)


@dataclass(frozen=True, slots=True)
class ShellResult(NamedFields):
    """The outputs of the commands, in their order."""

    outputs: tuple[CommandOutput, ...] = ()
    container_id: str | None = None
    """The provider's container in which the commands ran, if one did."""
    files: tuple[GeneratedFile, ...] = ()
    """The files that the commands left in that container, as far as the answer cites them."""
    status: str = "completed"
    """`completed`, or the provider's word for how the commands ended."""
    error: str | None = None
    """Why the commands could not be run, or not to their end."""

    @property
    def fault(self) -> str | None:
        """The first command that failed, and how; `None` when no failure is known."""
        for number, output in enumerate(self.outputs, start=1):
            if output.fault:
                return f"command {number} {output.fault}"
        return None

    def render(self) -> str:
        """Return the output of all commands."""
        return "\n".join(filter(None, (output.render() for output in self.outputs)))


@dataclass(frozen=True, slots=True)
class LegacyShellConfig:
    """Marks a tool as the first-generation `local_shell`, which older models were trained on."""

    kind: ClassVar[str] = "local_shell"


@dataclass(frozen=True, slots=True)
class LegacyShellParams:
    """One command as a list of words, executed directly: no shell interprets it."""

    command: list[str]
    env: dict[str, str] = field(default_factory=dict[str, str])
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None
