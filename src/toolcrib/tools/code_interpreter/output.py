"""What a run of model-written code gives back, whoever ran it."""

from __future__ import annotations

from dataclasses import dataclass


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
