"""A Python that is kept warm for one container."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.errors import SandboxFailed
from toolcrib.sandbox.command import Command, Limits
from toolcrib.sandbox.python import find_python

if TYPE_CHECKING:
    from toolcrib.sandbox.process import Process
    from toolcrib.sandbox.sandbox import Sandbox
    from toolcrib.sandbox.work import WorkDirectory

WORK_AT: Final = PurePosixPath("/mnt/data")
"""Where code finds its files."""

_KERNEL: Final = Path(__file__).with_name("kernel.py")


@dataclass(frozen=True, slots=True)
class Executed:
    """What became of a piece of code. `figures` are names below the work directory."""

    logs: str
    succeeded: bool
    figures: tuple[str, ...] = ()
    was_cut: bool = False
    ended_by: str | None = None
    """What ended the interpreter, with all its variables; None when it lives on."""


class Interpreter:
    """Runs code of one container in a sandboxed process that keeps its variables."""

    def __init__(
        self,
        sandbox: Sandbox,
        work: WorkDirectory,
        *,
        libraries: tuple[str, ...],
        limits: Limits,
        network: bool,
        most_logs: int,
    ) -> None:
        self._sandbox = sandbox
        self._work = work
        self._libraries = libraries
        self._limits = limits
        self._network = network
        self._most_logs = most_logs
        self._process: Process | None = None
        self._runs = 0

    @property
    def backend(self) -> str:
        """What confines it."""
        return self._sandbox.backend

    async def execute(self, code: str, seconds: float) -> Executed:
        """Run code. What takes too long, or too much, ends the interpreter: its variables are gone
        and the next code has a new one.
        """
        process = await self._alive()
        self._runs += 1
        asked = {"run": self._runs, "code": code, "most_output": self._most_logs}
        try:
            async with asyncio.timeout(seconds):
                await process.send(json.dumps(asked).encode() + b"\n")
                line = await process.stdout.readuntil(b"\n")
        except TimeoutError:
            process.kill("wall_clock")
            return await self._ended(f"the code took more than {seconds:g} seconds")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            process.kill()
            return await self._ended(None)
        except BaseException:
            process.kill()
            raise
        return _executed(json.loads(line))

    async def close(self) -> None:
        """End the process."""
        if self._process is not None:
            process, self._process = self._process, None
            await process.close()

    async def _alive(self) -> Process:
        if self._process is not None and not self._process.is_alive:
            await self.close()
        if self._process is None:
            self._process = await self._sandbox.open(self._command(), work=self._work)
        return self._process

    def _command(self) -> Command:
        python = find_python(self._libraries)
        return Command(
            argv=(python.executable, "-u", str(_KERNEL)),
            env={
                "HOME": "/tmp",
                "LANG": "C.UTF-8",
                "MPLBACKEND": "Agg",
                "MPLCONFIGDIR": "/tmp",
                "OPENBLAS_NUM_THREADS": "1",
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            readable=(*python.readable(self._sandbox.backend), _KERNEL),
            network=self._network,
            limits=self._limits,
            work_at=WORK_AT,
        )

    async def _ended(self, why: str | None) -> Executed:
        assert self._process is not None, "it has just been spoken with"
        process, self._process = self._process, None
        finished = await process.wait()
        reason = why or finished.killed_by or f"exit code {finished.exit_code}"
        told = finished.stderr.decode("utf-8", "replace")[-2000:]
        logs = f"{told}\nThe interpreter was ended ({reason}); its variables are gone.".strip()
        return Executed(logs, False, ended_by=reason)


def _executed(answer: dict[str, Any]) -> Executed:
    """What the confined side says; it may say anything, so that nothing of it is trusted."""
    logs, figures = answer.get("logs"), answer.get("figures")
    if not isinstance(logs, str) or not isinstance(figures, list):
        raise SandboxFailed("the confined interpreter answered with something else")
    told = [str(each) for each in cast(list[object], figures)]
    names = tuple(each for each in told if _is_figure(each))
    was_cut = bool(answer.get("was_cut"))
    return Executed(logs, bool(answer.get("succeeded")), names, was_cut)


def _is_figure(name: str) -> bool:
    parts = name.split("/")
    return len(parts) == 2 and parts[0] == ".figures" and parts[1].endswith(".png")
