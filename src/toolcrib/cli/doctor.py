"""`toolcrib doctor`: whether this machine has what the commands need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from toolcrib.cli import doctor_checks as checks
from toolcrib.cli.doctor_checks import CheckResult, Level
from toolcrib.cli.output import Exit, show, show_json
from toolcrib.cli.runtime_options import HostToolFiles, HostToolModules, PolicyFile
from toolcrib.cli.store_options import Json

_COLOURS: Final[dict[Level, str | None]] = {
    "ok": "green",
    "absent": "dim",
    "warning": "yellow",
    "failure": "red",
}


def doctor(
    store: Annotated[
        Path | None, typer.Option("--store", metavar="FILE", help="Check that it can be written.")
    ] = None,
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    policy: PolicyFile = None,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="Check that it is free.")
    ] = 8420,
    strict: Annotated[bool, typer.Option("--strict", help="Also fail on warnings.")] = False,
    json: Json = False,
) -> None:
    """Check whether this machine has what the commands need.

    Of API keys it prints only whether they are set. The exit status is 1 when a check failed.

    Example: toolcrib doctor --store crib.sqlite3 --host-tools host-tools.yaml
    """
    results = [
        *checks.of_python(),
        *checks.of_extras(),
        *checks.of_store(store),
        *checks.of_tools(host_tools or [], host_tools_module or []),
        *checks.of_policy(policy),
        *checks.of_keys(),
        *checks.of_token_file(),
        *checks.of_port(port),
        *checks.of_programs(),
    ]
    if json:
        show_json(results)
    else:
        for result in results:
            show(f"{result.level:<8} {result.name}: {result.text}", _COLOURS[result.level])
    raise typer.Exit(_status(results, strict=strict))


def _status(results: list[CheckResult], *, strict: bool) -> Exit:
    levels = {result.level for result in results}
    is_bad = "failure" in levels or (strict and "warning" in levels)
    return Exit.FAILED if is_bad else Exit.OK
