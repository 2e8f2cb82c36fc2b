"""Where model-written code runs, and with what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

from toolcrib.errors import InvalidTool
from toolcrib.tools.domains import check_domains

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
