"""Options, params and results of a code interpreter, in words that no provider owns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias, get_args

from toolcrib.errors import InvalidTool
from toolcrib.tools.citations import GeneratedFile
from toolcrib.tools.options import ToolCaller, check_callers, check_domains, check_named
from toolcrib.tools.result import NamedFields

MemoryLimit: TypeAlias = Literal["1g", "4g", "16g", "64g"]
MEMORY_LIMITS: tuple[str, ...] = get_args(MemoryLimit)
MOST_FILES = 50


@dataclass(frozen=True, slots=True)
class DomainSecret:
    """A secret that requests from a container to one domain carry. The code in the container knows
    it by `name` and never sees `value`, which goes to the provider and nowhere else.
    """

    domain: str
    name: str
    value: str = field(repr=False)

    def __post_init__(self) -> None:
        check_domains("DomainSecret.domain", (self.domain,))
        check_named("DomainSecret.name", self.name)
        # Not the common check: its message repeats the value.
        if not isinstance(self.value, str) or not self.value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"DomainSecret.value of {self.name!r} must be a text that is not blank"
            )


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """The only domains that code in a container may reach. An empty tuple means no network."""

    allowed_domains: tuple[str, ...] = ()
    domain_secrets: tuple[DomainSecret, ...] = ()
    """What requests to those domains carry."""

    def __post_init__(self) -> None:
        check_domains("NetworkPolicy.allowed_domains", self.allowed_domains)
        if not isinstance(self.domain_secrets, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool("NetworkPolicy.domain_secrets must be a tuple of DomainSecret")
        for secret in self.domain_secrets:
            if not isinstance(secret, DomainSecret):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidTool("NetworkPolicy.domain_secrets must be a tuple of DomainSecret")
            if not any(_is_within(secret.domain, domain) for domain in self.allowed_domains):
                raise InvalidTool(
                    f"NetworkPolicy.domain_secrets: {secret.name!r} is for {secret.domain}, which "
                    "allowed_domains does not allow; add the domain there"
                )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be recorded."""
        return tuple(secret.value for secret in self.domain_secrets)


def _is_within(domain: str, allowed: str) -> bool:
    domain, allowed = domain.lower(), allowed.lower()
    return domain == allowed or domain.endswith(f".{allowed}")


@dataclass(frozen=True, slots=True)
class AutoContainer:
    """A container that the provider creates for the conversation, with these files in it."""

    memory_limit: MemoryLimit = "1g"
    file_ids: tuple[str, ...] = ()
    network_policy: NetworkPolicy | None = None
    """`None` takes the provider's default."""

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
    """A container that exists already.

    Its memory was set when it was created: `memory_limit` is checked and never sent.
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


def container_secrets(container: Container) -> tuple[str, ...]:
    """Texts in the options of a container that must not be recorded."""
    policy = container.network_policy if isinstance(container, AutoContainer) else None
    return policy.secrets if policy else ()


@dataclass(frozen=True, slots=True)
class CodeInterpreterConfig:
    """The options of a code interpreter."""

    kind: ClassVar[str] = "code_interpreter"
    container: Container = field(default_factory=AutoContainer)
    allowed_callers: tuple[ToolCaller, ...] | None = None
    """Who may call it; `None` takes the provider's default, the model alone."""

    def __post_init__(self) -> None:
        check_callers("CodeInterpreterConfig.allowed_callers", self.allowed_callers)
        if not isinstance(self.container, AutoContainer | ExistingContainer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                "CodeInterpreterConfig.container must be an AutoContainer or an "
                f"ExistingContainer, not {self.container!r}"
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be recorded."""
        return container_secrets(self.container)


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
    """The code of one call, and the container it ran in."""

    code: str = ""
    container_id: str | None = None


@dataclass(frozen=True, slots=True)
class CodeInterpreterResult(NamedFields):
    """The code of a run, its output and its files. Some providers report no `stderr` and no
    `exit_code`.

    The result of several runs is that of the last one, with the files and images of all; each run
    is in `runs`.
    """

    code: str = ""
    stdout: str = ""
    stderr: str | None = None
    exit_code: int | None = None
    is_inferred: bool = False
    """True when `stderr` and `exit_code` were inferred from a traceback in the output."""
    container_id: str | None = None
    files: tuple[GeneratedFile, ...] = ()
    images: tuple[str, ...] = ()
    """Addresses of the images that the code displayed; often `data:` URLs."""
    status: str = "completed"
    """`completed`, or the provider's word for how the run ended."""
    error: str | None = None
    """Why the code could not be run, or how it failed; of several runs, the first that did."""
    runs: tuple[CodeInterpreterResult, ...] = ()
    """Every run, when there were several."""

    @classmethod
    def of(cls, runs: Sequence[CodeInterpreterResult]) -> CodeInterpreterResult | None:
        """Return what came of these runs; `None` when there were none."""
        if len(runs) < 2:
            return runs[0] if runs else None
        return replace(
            runs[-1],
            files=tuple(dict.fromkeys(file for run in runs for file in run.files)),
            images=tuple(image for run in runs for image in run.images),
            error=next(filter(None, (run.error for run in runs)), None),
            runs=tuple(runs),
        )

    def render(self) -> str:
        """Return the output, and `stderr` unless the output includes it."""
        if self.is_inferred or not self.stderr:
            return self.stdout
        return f"{self.stdout}\n{self.stderr}".strip()


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_RULE = re.compile(r"-{10,}")
_NOTEBOOK_HEADER = re.compile(r"[A-Za-z_]\w* +Traceback \(most recent call last\)")
_SCRIPT_HEADER = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"[A-Za-z_][\w.<>]*(?::.*)?")
_SYNTAX_ERROR = re.compile(r"(?:SyntaxError|IndentationError|TabError): .+")
_PLACE = re.compile(r"\s*(?:File .+, line \d+|(?:Cell|Input) In ?\[\d+\].*)")
# A faulty line is shown with its place above it and a caret under it.
_LINES_OF_A_SYNTAX_ERROR = 5


def fatal_traceback(output: str) -> str | None:
    """Return the traceback that ends the output of Python code, or `None`.

    Some providers report one text for all that a run prints and no exit code. A caught exception
    that the code prints looks the same, so only a traceback at the very end counts.
    """
    lines = _COLOURS.sub("", output).rstrip().splitlines()
    for find in (_notebook, _script, _syntax_error):
        start = find(lines)
        if start is not None:
            return "\n".join(lines[start:])
    return None


def _notebook(lines: Sequence[str]) -> int | None:
    """Return the line where a notebook reports an exception: below a rule that only it draws."""
    for index in range(1, len(lines)):
        if _NOTEBOOK_HEADER.fullmatch(lines[index]) and _RULE.fullmatch(lines[index - 1]):
            return index
    return None


def _script(lines: Sequence[str]) -> int | None:
    """Return the line where the last traceback starts, if only its exception follows the frames."""
    headers = [index for index, line in enumerate(lines) if line == _SCRIPT_HEADER]
    if not headers:
        return None
    below = [line for line in lines[headers[-1] + 1 :] if line and not line.startswith(" ")]
    is_last = len(below) == 1 and _EXCEPTION.fullmatch(below[0]) is not None
    return headers[-1] if is_last else None


def _syntax_error(lines: Sequence[str]) -> int | None:
    """Return the line where a syntax error is shown: the code never ran, so there are no frames."""
    if not lines or not _SYNTAX_ERROR.fullmatch(lines[-1]):
        return None
    first = max(0, len(lines) - _LINES_OF_A_SYNTAX_ERROR)
    places = [at for at in range(first, len(lines)) if _PLACE.fullmatch(lines[at])]
    return places[0] if places else None
