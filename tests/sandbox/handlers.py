"""Handlers for confined processes to import. Each does one thing that a handler may do, or must
not be able to.
"""

import ctypes
import os
import signal
import sys
from typing import Any

from toolcrib.errors import ModelRetry
from toolcrib.tools.result import ToolResult

Input = dict[str, Any]


def add(input: Input, context: Any) -> int:
    return input["a"] + input["b"]


async def later(input: Input, context: Any) -> dict[str, Any]:
    return {"call": context.call_id, "session": context.session_id, "tool": context.tool_name}


def around(input: Input, context: Any) -> dict[str, Any]:
    print("noise on stdout")
    return {
        "pid": os.getpid(),
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
        "context": context.environment,
        "readable": [path for path in input["paths"] if os.access(path, os.R_OK)],
    }


def result(input: Input, context: Any) -> ToolResult[int]:
    return ToolResult(value=1, message="One, as it happens.", metadata={"unit": "piece"})


def raises(input: Input, context: Any) -> None:
    raise KeyError("no such item")


def retries(input: Input, context: Any) -> None:
    raise ModelRetry("Ask for fewer.")


def crashes(input: Input, context: Any) -> None:
    ctypes.string_at(0)


def leaves(input: Input, context: Any) -> None:
    os._exit(7)


def exits(input: Input, context: Any) -> None:
    sys.exit("enough")


def waits(input: Input, context: Any) -> None:
    with open("/proc/self/comm", "w") as file:
        file.write(input["name"])
    signal.pause()


def spins(input: Input, context: Any) -> None:
    while True:
        pass


def prints(input: Input, context: Any) -> None:
    while True:
        print("x" * 1000)


def swells(input: Input, context: Any) -> int:
    held: list[bytes] = []
    while True:
        held.append(b"x" * 1_000_000)


def answers_much(input: Input, context: Any) -> str:
    return "x" * 10_000_000


def lies(input: Input, context: Any) -> str:
    os.symlink("/etc/passwd", ".toolcrib-answer")
    return "fine"


def calls(input: Input, context: Any) -> None:
    context.call_tool("other", {})


class Desk:
    @staticmethod
    def look(input: Input, context: Any) -> str:
        return "tidy"
