"""The Python interpreter of one container: a sandboxed process that keeps its variables."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.errors import SandboxFailed
from toolcrib.sandbox.command import Command, SandboxLimits
from toolcrib.sandbox.python import find_python

if TYPE_CHECKING:
    from toolcrib.sandbox.process import Process
    from toolcrib.sandbox.sandbox import Sandbox
    from toolcrib.sandbox.work_directory import WorkDirectory

WORK_AT: Final = PurePosixPath("/mnt/data")
"""The work directory as sandboxed code sees it."""

FIGURES: Final = ".figures"
"""The folder of drawn figures until they are stored; it is not part of a result."""

_KERNEL: Final = Path(__file__).with_name("kernel.py")
_MAX_FIGURES: Final = 20
_ENDING_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The result of an execution. `figures` are names below the work directory."""

    logs: str
    succeeded: bool
    figures: tuple[str, ...] = ()
    was_cut: bool = False
    ended_by: str | None = None
    """What ended the interpreter, with all its variables; None when it lives on."""
    is_first: bool = False
    """Whether the interpreter has run nothing before."""


class Interpreter:
    """Runs code of one container in a sandboxed process that keeps its variables."""

    def __init__(
        self,
        sandbox: Sandbox,
        work: WorkDirectory,
        *,
        libraries: tuple[str, ...],
        fonts: Path | None,
        limits: SandboxLimits,
        network: bool,
        proxy: Path | None = None,
        most_logs: int,
    ) -> None:
        self._sandbox = sandbox
        self._work = work
        self._libraries = libraries
        self._fonts = fonts
        self._limits = limits
        self._network = network
        self._proxy = proxy
        self._most_logs = most_logs
        self._process: Process | None = None
        self._is_doomed = False
        self._runs = 0
        self.is_busy = False

    async def execute(self, code: str, seconds: float) -> ExecutionResult:
        """Run code. Code that exceeds its time or its limits ends the interpreter, and so does
        cancellation: the variables are lost, and the next code runs in a new interpreter.
        """
        self.is_busy = True
        try:
            process, is_first = await self._alive()
            executed = await self._ask(process, code, seconds)
            return replace(executed, is_first=is_first)
        finally:
            self.is_busy = False

    async def close(self) -> None:
        """End the process."""
        if self._process is not None:
            process, self._process = self._process, None
            await process.close()

    async def _ask(self, process: Process, code: str, seconds: float) -> ExecutionResult:
        self._runs += 1
        message = {"run": self._runs, "code": code, "most_output": self._most_logs}
        try:
            async with asyncio.timeout(seconds):
                await process.send(json.dumps(message).encode() + b"\n")
                line = await process.stdout.readuntil(b"\n")
            return _executed(line, self._runs)
        except TimeoutError:
            process.kill("wall_clock")
            return await self._ended(process, f"the code took more than {seconds:g} seconds")
        except (asyncio.IncompleteReadError, ConnectionError):
            await _given_time_to_end(process)
            return await self._ended(process, None)
        except (asyncio.LimitOverrunError, SandboxFailed):
            process.kill()
            return await self._ended(process, "its reply was invalid")
        except BaseException:
            # The request was cancelled: its code must not run on.
            process.kill()
            self._is_doomed = True
            raise

    async def _alive(self) -> tuple[Process, bool]:
        """The process, and whether it is a new one."""
        if self._process is not None and self._process.is_alive and not self._is_doomed:
            return self._process, False
        await self.close()
        self._is_doomed = False
        self._process = await self._sandbox.open(self._command(), work=self._work)
        return self._process, True

    def _command(self) -> Command:
        python = find_python(self._libraries)
        fonts = () if self._fonts is None else (self._fonts,)
        # Only there is a /tmp of its own.
        has_own_tmp = self._sandbox.backend == "bubblewrap"
        scratch = "/tmp" if has_own_tmp else str(self._work.path / FIGURES)
        return Command(
            argv=(python.executable, "-u", str(_KERNEL), *map(str, fonts)),
            env={
                "HOME": scratch,
                "LANG": "C.UTF-8",
                "MPLBACKEND": "Agg",
                "MPLCONFIGDIR": scratch,
                "OPENBLAS_NUM_THREADS": "1",
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            readable=(*python.readable(self._sandbox.backend), _KERNEL, *fonts),
            network=self._network,
            proxy=self._proxy,
            limits=self._limits,
            work_at=WORK_AT,
        )

    async def _ended(self, process: Process, why: str | None) -> ExecutionResult:
        if self._process is process:
            self._process = None
        finished = await process.wait()
        reason = why or finished.killed_by or f"exit code {finished.exit_code}"
        stderr = finished.stderr.decode("utf-8", "replace")[-2000:]
        logs = f"{stderr}\nThe interpreter was ended ({reason}); its variables are gone.".strip()
        return ExecutionResult(logs, False, ended_by=reason)


async def _given_time_to_end(process: Process) -> None:
    """Wait for a silent process to end, so that its exit code is known; then kill it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_ENDING_SECONDS):
            await process.wait()
    process.kill()


def _executed(line: bytes, run: int) -> ExecutionResult:
    """Parse a reply of the sandboxed process. User code may forge it, so nothing is trusted."""
    try:
        answer: object = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    facts = cast(dict[str, Any], answer) if isinstance(answer, dict) else {}
    logs, figures = facts.get("logs"), facts.get("figures")
    if facts.get("run") != run or not isinstance(logs, str) or not isinstance(figures, list):
        raise SandboxFailed("the sandboxed interpreter sent an invalid reply")
    names = [str(name) for name in cast(list[object], figures)[:_MAX_FIGURES]]
    return ExecutionResult(
        logs.encode("utf-8", "replace").decode(),
        facts.get("succeeded") is True,
        tuple(dict.fromkeys(name for name in names if _is_figure(name))),
        facts.get("was_cut") is True,
    )


def _is_figure(name: str) -> bool:
    parts = name.split("/")
    return len(parts) == 2 and parts[0] == FIGURES and parts[1].endswith(".png")
