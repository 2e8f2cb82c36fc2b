"""The numbered steps of a task, done one after the other.

A small model loses its way in a task of many steps. Where the user numbers them, it is shown one
step at a time, and where a step names a tool, the model writes a call of that tool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toolcrib.embedded.backend import (
    BackendCallResult,
    BackendInput,
    BackendMessage,
    BackendRequest,
    BackendTool,
)

MAX_ATTEMPTS: Final = 3
"""How often a step is tried whose program fails."""

_STEP: Final = re.compile(
    r"^[ \t]*(\d{1,2})[.)][ \t]+(\S.*(?:\n(?!\s*\d{1,2}[.)]\s|\s*\n).*)*)", re.MULTILINE
)
_FAILED: Final = re.compile(
    r"Traceback \(most recent call last\)|^\w*Error\b|^The arguments of .* are not valid",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class TaskStep:
    """The step that is next: its number, how many there are, its text, and the tool that it names.
    A step that names none is the answer.
    """

    number: int
    count: int
    text: str
    tool: BackendTool | None
    is_optional: bool = False
    fault: str = ""
    """Why the last try of this step failed."""
    failed: int = 0
    """How many tries of this step failed."""

    @property
    def reminder(self) -> str:
        """What the model reads before it writes."""
        done = f"Steps 1 to {self.number - 1} are done. " if self.number > 1 else ""
        again = f" The last try failed: {self.fault} Do better." if self.fault else ""
        return f"{done}Do only step {self.number} of {self.count} now: {self.text}{again}"


def next_step(request: BackendRequest) -> TaskStep | None:
    """The next step of the last task of the user; None for a task without numbered steps that name
    tools.
    """
    task, results = _task(request.history)
    texts = steps_in(task)
    tools = [_tool_in(text, request.tools) for text in texts]
    if not any(tools):
        return None
    done = Counter[str]()
    attempts = Counter[str]()
    for result in results:
        attempts[result.name] += 1
        if not _FAILED.search(result.text) or attempts[result.name] >= MAX_ATTEMPTS:
            done[result.name] += 1
            attempts[result.name] = 0
    for number, (text, tool) in enumerate(zip(texts, tools, strict=True), start=1):
        if tool is not None and done[tool.name] > 0:
            done[tool.name] -= 1
        else:
            is_optional = re.search(r"\bif\b", text, re.IGNORECASE) is not None
            failed = 0 if tool is None else attempts[tool.name]
            fault = _last_line(results[-1].text) if failed else ""
            return TaskStep(number, len(texts), text, tool, is_optional, fault, failed)
    return TaskStep(len(texts) + 1, len(texts) + 1, "Answer the user.", None)


def steps_in(task: str) -> list[str]:
    """The numbered steps of a text, in order from 1; none if the numbers do not run."""
    found = [(int(number), " ".join(text.split())) for number, text in _STEP.findall(task)]
    runs = [number for number, _ in found] == list(range(1, len(found) + 1))
    return [text for _, text in found] if runs and len(found) > 1 else []


def _task(history: Sequence[BackendInput]) -> tuple[str, list[BackendCallResult]]:
    task, results = "", list[BackendCallResult]()
    for entry in history:
        if isinstance(entry, BackendMessage) and entry.role == "user":
            task, results = entry.text, []
        elif isinstance(entry, BackendCallResult):
            results.append(entry)
    return task, results


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else ""


def _tool_in(text: str, tools: Sequence[BackendTool]) -> BackendTool | None:
    """The one tool that a step names."""
    named = [tool for tool in tools if re.search(rf"\b{re.escape(tool.name)}\b", text)]
    return named[0] if len(named) == 1 else None
