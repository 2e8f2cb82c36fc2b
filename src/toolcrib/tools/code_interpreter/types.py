"""Where model-written code runs, and with what.

What a run of model-written code gives back, whoever ran it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import check_domains

MemoryLimit: TypeAlias = Literal["1g", "4g", "16g", "64g"]
MEMORY_LIMITS: tuple[str, ...] = get_args(MemoryLimit)
MOST_FILES = 50


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """The only domains that code in a container may reach. An empty tuple means no network."""

    allowed_domains: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_domains("NetworkPolicy.allowed_domains", self.allowed_domains)


@dataclass(frozen=True, slots=True)
class AutoContainer:
    """A container that the provider makes for the conversation, with these files in it."""

    memory_limit: MemoryLimit = "1g"
    file_ids: tuple[str, ...] = ()
    network_policy: NetworkPolicy | None = None
    """None leaves it to the provider."""

    def __post_init__(self) -> None:
        _check_memory("AutoContainer", self.memory_limit)
        _check_file_ids(self.file_ids)
        if not isinstance(self.network_policy, NetworkPolicy | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"AutoContainer.network_policy must be a NetworkPolicy or None, "
                f"not {self.network_policy!r}"
            )


@dataclass(frozen=True, slots=True)
class ExistingContainer:
    """A container that is already there.

    Its memory was set when it was made: `memory_limit` is checked here and never sent.
    """

    id: str
    memory_limit: MemoryLimit | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"ExistingContainer.id must be the id of a container, not {self.id!r}; "
                "to have one made, use AutoContainer()"
            )
        if self.memory_limit is not None:
            _check_memory("ExistingContainer", self.memory_limit)


Container: TypeAlias = AutoContainer | ExistingContainer


@dataclass(frozen=True, slots=True)
class CodeInterpreterConfig:
    """The options of a code interpreter."""

    kind: ClassVar[str] = "code_interpreter"
    container: Container = field(default_factory=AutoContainer)

    def __post_init__(self) -> None:
        if not isinstance(self.container, AutoContainer | ExistingContainer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                "CodeInterpreterConfig.container must be an AutoContainer or an "
                f"ExistingContainer, not {self.container!r}"
            )


def _check_memory(owner: str, limit: object) -> None:
    if limit not in MEMORY_LIMITS:
        raise InvalidTool(
            f"{owner}.memory_limit must be one of {', '.join(MEMORY_LIMITS)}, not {limit!r}"
        )


def _check_file_ids(file_ids: object) -> None:
    if not isinstance(file_ids, tuple) or len(file_ids) > MOST_FILES:  # pyright: ignore[reportUnknownArgumentType]
        raise InvalidTool(f"AutoContainer.file_ids must be a tuple of at most {MOST_FILES} ids")
    for file_id in file_ids:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(file_id, str) or not file_id.strip():
            raise InvalidTool(
                f"AutoContainer.file_ids: {file_id!r} is not the id of an uploaded file"
            )


@dataclass(frozen=True, slots=True)
class CodeRun:
    """What one call was asked to run, and where."""

    code: str = ""
    container_id: str | None = None


@dataclass(frozen=True, slots=True)
class GeneratedFile:
    """A file that the code made. `filename` was chosen by a model: never use it as a path."""

    container_id: str
    file_id: str
    filename: str
    span: tuple[int, int] | None = None
    """Where the answer's text mentions it: start and end (exclusive) in characters. None when it
    does not, as with a remark on the way to the answer."""


@dataclass(frozen=True, slots=True)
class CodeInterpreterResult:
    """The code and what came of it. Some providers do not tell `stderr` and `exit_code`."""

    code: str = ""
    stdout: str = ""
    stderr: str | None = None
    exit_code: int | None = None
    is_inferred: bool = False
    """True when `stderr` and `exit_code` were read out of a traceback in the output."""
    container_id: str | None = None
    files: tuple[GeneratedFile, ...] = ()
    images: tuple[str, ...] = ()
    """Addresses of the pictures that the code showed; often `data:` URLs."""

    def render(self) -> str:
        """What the code printed, and what it complained about unless that is printed too."""
        if self.is_inferred or not self.stderr:
            return self.stdout
        return f"{self.stdout}\n{self.stderr}".strip()
