"""The `toolcrib` command in tests: in this process, as a real process, and at a real terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from typer.testing import CliRunner, Result

from tests.approval.pseudo_terminal import PROMPT, PseudoTerminal, pseudo_terminal
from tests.helpers.patience import PATIENCE
from toolcrib.cli.app import app

MAIN = (sys.executable, "-c", "from toolcrib.cli import main; main()")
MODULES = ("cli_tools", "cli_model", "workshop")

TOOLS = '''
import asyncio
import sys

from toolcrib import tool

print("loading")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: Another.
    """
    return a + b


@tool(requires_approval=True)
def shout(text: str) -> str:
    """Shout a text.

    Args:
        text: What to shout.
    """
    return text.upper()


@tool
def chatter() -> str:
    """Print where answers go."""
    print("chatter")
    return "done"


@tool
async def linger() -> None:
    """Never end."""
    print("lingering", file=sys.stderr, flush=True)
    await asyncio.Event().wait()


@tool
def hack() -> str:
    """Write what a terminal would obey."""
    return "safe\\x1b[2Jcleared\\x9bm\\u202eback"
'''

MODEL = """
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.testing import ScriptedOpenAI, calls, says

script = ScriptedOpenAI(
    [calls("add", {"a": 2, "b": 3})],
    [calls("shout", {"text": "five"}, call_id="call_2")],
    [says("It is 5.\\x1b[2J")],
    [says("You are welcome.")],
)
noisy = OpenAIAdapter(
    model="scripted", client=ScriptedOpenAI([calls("chatter")], [says("Quiet.")]).client()
)
adapter = OpenAIAdapter(model="scripted", client=script.client())

again = OpenAIAdapter(
    model="scripted", client=ScriptedOpenAI([says("It was 5.")]).client()
)
mute = OpenAIAdapter(model="scripted", client=ScriptedOpenAI().client())
"""


def write_modules(folder: Path) -> None:
    """Put the tools and the scripted model where the command can import them."""
    (folder / "cli_tools.py").write_text(TOOLS, "utf-8")
    (folder / "cli_model.py").write_text(MODEL, "utf-8")


def environment(**more: str) -> dict[str, str]:
    """No colour and no server of whoever runs the tests."""
    dropped = ("TOOLCRIB_URL", "TOOLCRIB_TOKEN", "TOOLCRIB_OWNER_TOKEN", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"NO_COLOR": "1", "COLUMNS": "200", **more}


def invoke(*arguments: str | Path, env: Mapping[str, str | None] | None = None) -> Result:
    """The command in this process."""
    return CliRunner().invoke(app, [str(each) for each in arguments], env=env)


def run(
    *arguments: str | Path, cwd: Path | None = None, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """The command as a process whose three streams are pipes."""
    return subprocess.run(
        [*MAIN, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment(**env),
        timeout=PATIENCE,
    )


class Served:
    """A process that serves: its address, and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[str] = []
        self.url = ""

    async def hear(self, text: str) -> str:
        """Wait for a line of stderr with `text` in it."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while line := (await self.process.stderr.readline()).decode():
                self.said.append(line)
                if text in line:
                    return line
        raise AssertionError(f"ended without {text!r}: {''.join(self.said)}")

    async def stop(self) -> int:
        """Ask it to stop, and wait for its exit status."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            rest, errors = await self.process.communicate()
        self.said.append(errors.decode())
        assert rest == b""
        return await self.process.wait()


@asynccontextmanager
async def serving(
    *arguments: str | Path,
    cwd: Path,
    tokens: Sequence[str] = ("--token-file", "token"),
    command: str = "serve",
    **env: str,
) -> AsyncGenerator[Served]:
    """`toolcrib serve`, or another command, on a free port, with a token in `cwd`."""
    process = await asyncio.create_subprocess_exec(
        *MAIN,
        *(*command.split(), "--port", "0", *tokens),
        *map(str, arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=environment(**env),
    )
    served = Served(process)
    try:
        # The line may be JSON.
        served.url = (await served.hear("serving on")).split()[-1].rstrip('"}')
        yield served
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


class AtTerminal:
    """A process whose three streams are one terminal."""

    def __init__(self, terminal: PseudoTerminal, process: subprocess.Popen[bytes]) -> None:
        self.terminal = terminal
        self.process = process

    async def see(self, text: str = PROMPT) -> str:
        """Wait until `text` is on the screen, however long a busy machine takes to start it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(TimeoutError, OSError):
                    return await self.terminal.see(text, seconds=1)
                status = self.process.poll()
                assert status is None, f"ended with status {status} without showing {text!r}"

    async def answer(self, *lines: str) -> None:
        """Wait for each prompt and type a line at it."""
        for line in lines:
            await self.see()
            self.terminal.type(f"{line}\n")

    async def rest(self) -> str:
        """Read the screen until the program has ended."""
        async with asyncio.timeout(PATIENCE):
            return await self.terminal.read_to_end()

    async def exit_code(self) -> int:
        """Wait for its end. Somebody has to read the screen meanwhile, or it could not write."""
        return await asyncio.to_thread(self.process.wait, PATIENCE)


def _take_terminal() -> None:
    """Make stdin the terminal that controls this process, so that Ctrl-C typed there reaches it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def at_terminal(
    *arguments: str | Path, cwd: Path, columns: int | None = None, **env: str
) -> Generator[AtTerminal]:
    """The command as a process at a real terminal, which is its controlling one. With `columns` it
    learns its width from the terminal alone.
    """
    with program_at_terminal(*MAIN, *arguments, cwd=cwd, columns=columns, **env) as started:
        yield started


@contextmanager
def program_at_terminal(
    *command: str | Path, cwd: Path, columns: int | None = None, **env: str
) -> Generator[AtTerminal]:
    """Any program as a process at a real terminal."""
    variables = environment(TERM="xterm", **env)
    if columns is not None:
        del variables["COLUMNS"]
    with pseudo_terminal(columns) as terminal:
        process = subprocess.Popen(
            [*map(str, command)],
            stdin=terminal.stream,
            stdout=terminal.stream,
            stderr=terminal.stream,
            cwd=cwd,
            env=variables,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        # The program has its own end now. When it closes that, the screen is complete.
        terminal.stream.close()
        try:
            yield AtTerminal(terminal, process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
