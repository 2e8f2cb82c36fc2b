"""Runs the Python blocks of a Markdown file the way a reader would: in order, in one session."""

import ast
import asyncio
import inspect
import re
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, cast

_OPEN = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`]*)$")
_NO_RUN = re.compile(r'no-run="[^"]+"')


@dataclass(frozen=True, slots=True)
class Block:
    """One ```python fence; `line` is where its first line of code stands in `file`."""

    file: Path
    line: int
    code: str

    @property
    def is_program(self) -> bool:
        """Whether it stands alone: pasted into a file, it runs."""
        return "asyncio.run(" in self.code

    @property
    def needs_a_loop(self) -> bool:
        """Whether it awaits outside of a function, as a notebook allows and a file does not."""
        return _compile(self).co_flags & inspect.CO_COROUTINE != 0


def read_blocks(file: Path) -> tuple[Block, ...]:
    """The blocks of `file` that run. A block that does not run must say why."""
    return tuple(block for block, runs in _python_blocks(file) if runs)


def read_all_blocks(file: Path) -> tuple[Block, ...]:
    """The Python blocks of `file`, those that do not run included."""
    return tuple(block for block, _ in _python_blocks(file))


def blocks_under(file: Path, heading: str) -> tuple[Block, ...]:
    """The blocks of one section, down to the next heading of the same level."""
    lines = file.read_text("utf-8").splitlines()
    level = heading.partition(" ")[0]
    start = lines.index(heading) + 1
    ends = (number for number in range(start, len(lines)) if lines[number].startswith(f"{level} "))
    end = next(ends, len(lines))
    return tuple(block for block in read_blocks(file) if start < block.line <= end)


def run_blocks(blocks: tuple[Block, ...]) -> dict[str, Any]:
    """Run all blocks in one namespace and one event loop; errors name the page and its line.

    Returns what the blocks have defined.
    """
    return asyncio.run(_run(blocks))


async def _run(blocks: tuple[Block, ...]) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        if block.is_program:
            # It runs an event loop of its own, and nothing of it is needed by another block.
            await asyncio.to_thread(exec, _compile(block), {"__name__": "__main__"})
            continue
        result = eval(_compile(block), namespace)
        if inspect.isawaitable(result):
            await cast(Awaitable[None], result)
    return namespace


def _compile(block: Block) -> CodeType:
    # Blank lines in front make the compiler count lines as the Markdown file does.
    source = "\n" * (block.line - 1) + block.code
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(source, str(block.file), "exec", flags=flags, dont_inherit=True)


def _python_blocks(file: Path) -> Iterator[tuple[Block, bool]]:
    """Each Python block, and whether it runs."""
    lines = iter(enumerate(file.read_text("utf-8").splitlines(), start=1))
    for number, text in lines:
        opening = _OPEN.match(text)
        if opening is None:
            continue
        code = _until_closed(lines, opening, file, number)
        if _is_python(opening["info"]):
            yield Block(file, number + 1, code), _runs(opening["info"], file, number)


def _until_closed(
    lines: Iterator[tuple[int, str]], opening: re.Match[str], file: Path, number: int
) -> str:
    indent, ticks = opening["indent"], opening["ticks"]
    code: list[str] = []
    for _, text in lines:
        if text.strip() == ticks:
            return "\n".join(code) + "\n"
        code.append(text.removeprefix(indent))
    raise ValueError(f"{file}:{number}: this code block is never closed")


def _is_python(info: str) -> bool:
    return info.strip().partition(" ")[0] in ("python", "py", "python3")


def _runs(info: str, file: Path, number: int) -> bool:
    language, _, options = info.strip().partition(" ")
    if not options and language == "python":
        return True
    if language == "python" and _NO_RUN.fullmatch(options.strip()):
        return False
    raise ValueError(
        f'{file}:{number}: write ```python, or ```python no-run="the reason"; not ```{info}'
    )
