"""What a shell is asked to run, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShellParams:
    """Commands to run, in order or side by side, each in a shell of its own."""

    commands: list[str]
    timeout_ms: int | None = None
    """How long the commands may take."""
    max_output_length: int | None = None
    """How much output the model wants; whoever reads the output cuts it, not the handler."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What one command printed and how it ended. Without an exit code that is not known."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    timed_out: bool = False

    @property
    def fault(self) -> str | None:
        """How the command failed; None when it did not, as far as is known."""
        if self.timed_out:
            return "timed out"
        return f"ended with exit code {self.exit_code}" if self.exit_code else None

    def render(self) -> str:
        """Everything that was printed, and how it ended unless well."""
        ending = f"[{self.fault}]" if self.fault else ""
        return "\n".join(part.rstrip("\n") for part in (self.stdout, self.stderr, ending) if part)


@dataclass(frozen=True, slots=True)
class ShellResult:
    """The outputs of the commands, in their order."""

    outputs: tuple[CommandOutput, ...] = ()
    container_id: str | None = None
    """Where they ran, when that was a container of the provider's."""

    @property
    def fault(self) -> str | None:
        """The first command that failed, and how; None when none did, as far as is known."""
        for number, output in enumerate(self.outputs, start=1):
            if output.fault:
                return f"command {number} {output.fault}"
        return None

    def render(self) -> str:
        """What the commands printed."""
        return "\n".join(filter(None, (output.render() for output in self.outputs)))
