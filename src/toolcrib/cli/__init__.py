"""The `toolcrib` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.cli.output import Exit

__all__ = ["Exit", "main"]

_MISSING = """\
The toolcrib command needs {name}, which is not installed.
Install what it needs with: {command}"""


def main() -> None:
    """Run the command line and exit with one of the statuses of `Exit`."""
    if sys.argv[1:] == ["--version"]:
        from toolcrib._version import __version__

        # Asked by installers and scripts, often, and in need of nothing.
        print(f"toolcrib {__version__}")
        return
    for name in ("rich", "typer"):
        # Found, not imported: most commands print without rich.
        if find_spec(name) is None:
            from toolcrib.extras import install_command

            print(_MISSING.format(name=name, command=install_command("cli")), file=sys.stderr)
            raise SystemExit(1)

    # What is imported now stays until the end: looking for garbage in it is wasted.
    gc.disable()
    from toolcrib.cli.app import app

    try:
        app()
    except SystemExit as end:
        _end_at_once(end)
        raise


def _end_at_once(end: SystemExit) -> None:
    """End a process in which nothing runs and nothing is open: help, or a list.

    To take the interpreter apart takes a fifth of the time of such a command.
    """
    if "asyncio" in sys.modules or threading.active_count() > 1 or not isinstance(end.code, int):
        return
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        # The reader has gone; Python has its own way to end then.
        return
    os._exit(end.code)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, {"toolcrib.cli.output": ("Exit",)})
