"""`toolcrib doctor`: whether this machine has what the commands need. A check changes nothing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from toolcrib._version import __version__
from toolcrib.cli.output import EXTRAS, Exit, missing_packages, redirected_stdout, show, show_json
from toolcrib.cli.project_options import current_project, project_fault
from toolcrib.cli.runtime_options import RuntimeOptions, takes_runtime_options
from toolcrib.cli.store_options import Json
from toolcrib.errors import StoreError, UsageError
from toolcrib.extras import install_command

if TYPE_CHECKING:
    from toolcrib.store.address import DatabaseUrl, StoreAddress
    from toolcrib.store.postgres.facts import DatabaseHealth, SchemaState

Level = Literal["ok", "absent", "warning", "failure"]
"""`absent`: optional, and not there."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, with the remedy for a failure. It contains no secret."""

    name: str
    level: Level
    text: str


MOST_CLOCK_SECONDS: Final = 5.0
"""How far the clock of a replica may be from the database's: requests between replicas carry the
time.
"""
OLDEST_PYTHON: Final = (3, 11)
OLDEST_SQLITE: Final = (3, 35, 0)
KEYS: Final = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "XAI_API_KEY",
)
PROGRAMS: Final = {"node": "MCP servers that are started with npx"}


def check_python() -> Iterator[CheckResult]:
    """The interpreter, and its SQLite."""
    version = ".".join(map(str, sys.version_info[:3]))
    is_new = sys.version_info[:2] >= OLDEST_PYTHON
    yield CheckResult("python", "ok" if is_new else "failure", f"{version} at {sys.executable}")
    import sqlite3

    has_upsert = sqlite3.sqlite_version_info >= OLDEST_SQLITE
    yield CheckResult("sqlite", "ok" if has_upsert else "failure", sqlite3.sqlite_version)


def check_extras() -> Iterator[CheckResult]:
    """The extras that are installed."""
    for extra in EXTRAS:
        if missing := missing_packages(extra):
            text = f"no {', '.join(missing)}; {install_command(extra)}"
            yield CheckResult(f"extra {extra}", "absent", text)
        else:
            yield CheckResult(f"extra {extra}", "ok", "installed")


def check_store(file: StoreAddress | None) -> Iterator[CheckResult]:
    """Whether a store can be opened and written; a missing one is not created."""
    if file is None:
        return
    if not isinstance(file, Path):
        yield from _database(file)
    elif file.exists():
        yield _existing_store(file)
    elif os.access(file.parent, os.W_OK):
        yield CheckResult("store", "ok", f"{file} can be created")
    else:
        yield CheckResult("store", "failure", f"{file.parent} is not a writable folder")


def _database(address: DatabaseUrl) -> Iterator[CheckResult]:
    """A store on PostgreSQL, as it is: no table is made, and no replica joins."""
    from toolcrib.store.kept_store import require_postgres

    try:
        require_postgres()
        from toolcrib.project.runtime import replica_options
        from toolcrib.store.postgres.facts import database_health

        health = database_health(address.url, replica_options(current_project()).read_key())
    except (StoreError, UsageError) as error:
        yield CheckResult("store", "failure", str(error))
        return
    text = f"{address} answers (PostgreSQL {health.server}), with {health.sessions} sessions"
    yield CheckResult("store", "ok", text)
    yield _schema(health.schema)
    yield _store_key(health)
    for replica in health.replicas:
        is_same = replica.version == __version__
        where = replica.address or "no address"
        text = f"at {where}, version {replica.version}"
        other = "" if is_same else f"; this is {__version__}: finish the upgrade"
        yield CheckResult(
            f"replica {replica.replica_id}", "ok" if is_same else "warning", text + other
        )
    if not health.replicas:
        yield CheckResult("replicas", "absent", "no replica has the store open")
    seconds = health.clock_difference
    yield CheckResult(
        "clock",
        "ok" if abs(seconds) < MOST_CLOCK_SECONDS else "warning",
        f"{abs(seconds):.1f} s {'ahead of' if seconds >= 0 else 'behind'} the database"
        + ("" if abs(seconds) < MOST_CLOCK_SECONDS else "; set it by NTP"),
    )


def _schema(schema: SchemaState) -> CheckResult:
    if not schema.version:
        return CheckResult("schema", "absent", "no tables yet; the first replica makes them")
    if schema.missing:
        text = f"{schema.version}, without {', '.join(schema.missing)}; toolcrib store migrate"
        return CheckResult("schema", "warning", text)
    if schema.version > schema.newest:
        text = f"{schema.version}, newer than this version's {schema.newest}, which can use it"
        return CheckResult("schema", "warning", text)
    return CheckResult("schema", "ok", str(schema.version))


def _store_key(health: DatabaseHealth) -> CheckResult:
    """Of keys only the names are shown, which are digests."""
    if health.unknown_keys:
        text = f"secrets are sealed with {', '.join(health.unknown_keys)}, which is not given here"
        return CheckResult("store key", "failure", f"{text}; add it to TOOLCRIB_STORE_KEY")
    if not health.has_key:
        text = "no TOOLCRIB_STORE_KEY; the store keeps no secrets without it, see docs/replicas.md"
        return CheckResult("store key", "warning", text)
    if health.old_keys:
        text = f"set; secrets still need {', '.join(health.old_keys)}, which is an older one"
        return CheckResult("store key", "ok", text)
    return CheckResult("store key", "ok", "set")


def _existing_store(file: Path) -> CheckResult:
    if not os.access(file, os.W_OK):
        return CheckResult("store", "failure", f"{file} cannot be written by this user")
    return _opened_store(file)


def _opened_store(file: StoreAddress) -> CheckResult:
    from contextlib import closing

    from toolcrib.store.kept_store import open_at
    from toolcrib.store.store import every

    try:
        with closing(open_at(file)) as store:
            count = sum(1 for _ in every(lambda cursor: store.sessions(cursor=cursor)))
            return CheckResult("store", "ok", f"{file} has {count} sessions")
    except (StoreError, UsageError) as error:
        return CheckResult("store", "failure", str(error))


def check_project() -> Iterator[CheckResult]:
    """Whether the project file is valid."""
    project = current_project()
    if (fault := project_fault()) is not None:
        yield CheckResult("project", "failure", fault)
    elif project is None:
        yield CheckResult("project", "absent", "no toolcrib.yaml here or in a folder above")
    else:
        yield CheckResult("project", "ok", str(project.file))


def check_tools(options: RuntimeOptions) -> Iterator[CheckResult]:
    """Whether the tools can be loaded."""
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.project.runtime import load_tools, make_importable

    if not options.host_tools and not options.host_tools_module:
        return
    if options.project is not None:
        make_importable(options.project.folder)
    registry = HostToolRegistry()
    try:
        with redirected_stdout():
            import asyncio

            asyncio.run(load_tools(options, registry))
    except UsageError as error:
        yield CheckResult("host tools", "failure", str(error))
        return
    names = ", ".join(tool.name for tool in registry.list_tools())
    yield CheckResult("host tools", "ok", names)


def check_policy(file: Path | None) -> Iterator[CheckResult]:
    """Whether a policy is valid, and the cautions about its rules."""
    from toolcrib.approval.policy_file import load_policy
    from toolcrib.approval.policy_lint import cautions

    if file is None:
        return
    try:
        policy = load_policy(file)
    except UsageError as error:
        yield CheckResult("policy", "failure", str(error))
        return
    yield CheckResult("policy", "ok", f"{file} has {len(policy.rules)} rules")
    for caution in cautions(policy):
        yield CheckResult("policy", "warning", f'rule "{caution.rule}": {caution.message}')


def check_keys() -> Iterator[CheckResult]:
    """Which API keys of providers are set, and nothing else about them."""
    for name in KEYS:
        is_set = bool(os.environ.get(name))
        yield CheckResult(
            f"key {name}", "ok" if is_set else "absent", "set" if is_set else "not set"
        )


def check_token_file() -> Iterator[CheckResult]:
    """Whether the files of the owner's token and of everybody else's are valid."""
    from toolcrib.serving.tokens import (
        TokenFile,
        default_token_file,
        default_tokens_file,
        owner_token,
    )

    path, others = default_token_file(), TokenFile(default_tokens_file())
    try:
        if path.exists():
            owner_token(path)
            yield CheckResult("token file", "ok", str(path))
        else:
            text = f"{path} is created by the first `serve --http`"
            yield CheckResult("token file", "absent", text)
        if count := len(others.records()):
            yield CheckResult("tokens", "ok", f"{others.path} has {count}")
    except UsageError as error:
        yield CheckResult("token file", "failure", str(error))


def check_port(port: int) -> Iterator[CheckResult]:
    """Whether `serve --http` could listen."""
    try:
        import socket

        with socket.create_server(("127.0.0.1", port)):
            yield CheckResult("port", "ok", f"{port} is free")
    except OSError as error:
        text = f"{port} cannot be used ({error.strerror}); serve with another --port"
        yield CheckResult("port", "warning", text)


def check_programs() -> Iterator[CheckResult]:
    """Programs that only some uses need."""
    for name, use in PROGRAMS.items():
        path = shutil.which(name)
        text = path or f"not on the path; only {use} need it"
        yield CheckResult(name, "ok" if path else "absent", text)


_COLOURS: Final[dict[Level, str | None]] = {
    "ok": "green",
    "absent": "dim",
    "warning": "yellow",
    "failure": "red",
}


@takes_runtime_options("host_tools", "host_tools_module", "store", "policy")
def doctor(
    options: RuntimeOptions,
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
        *check_python(),
        *check_extras(),
        *check_project(),
        *check_store(options.store),
        *check_tools(options),
        *check_policy(options.policy),
        *check_keys(),
        *check_token_file(),
        *check_port(port),
        *check_programs(),
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
