"""The options of commands that host a runtime, made from the table of settings.

`takes_runtime_options` adds the shared options to a command, which gets their values as one
`RuntimeOptions`: of the command line, else of the project file, else the defaults.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from toolcrib.cli.output import fail, require_extra, show_note
from toolcrib.cli.project_options import current_choice, current_project, is_on_command_line
from toolcrib.cli.shared_options import Command, option, takes_options
from toolcrib.cli.store_options import parsed_address
from toolcrib.errors import Refused, StoreError, UsageError
from toolcrib.project.runtime import RuntimeOptions
from toolcrib.project.settings import RUNTIME_SETTINGS, Setting

if TYPE_CHECKING:
    import asyncio

    from toolcrib.logs import LogLevel
    from toolcrib.project.reload import ReloadReport
    from toolcrib.project.runtime import HostedRuntime
    from toolcrib.runtime.runtime import Runtime

T = TypeVar("T")


def option_of(setting: Setting) -> Any:
    """The type of a setting's option, as Typer reads it."""
    is_store = setting.name == "store"
    return Annotated[
        str | None if is_store else setting.kind,
        typer.Option(
            setting.flag,
            parser=parsed_address if is_store else None,
            metavar=setting.metavar,
            min=setting.least,
            max=setting.most,
            help=setting.text,
        ),
    ]


_OPTIONS: Final = {setting.name: setting for setting in RUNTIME_SETTINGS}

TOOL_OPTIONS: Final = ("host_tools", "host_tools_module", "plugins", "toolset")
"""The options that name the tools of a runtime."""
HOST_OPTIONS: Final = (*TOOL_OPTIONS, "store", "policy", "expect_tool")
"""The options of a runtime without a model."""
CALLER_OPTIONS: Final = (
    "allow_cwd",
    "allow_env",
    "max_calls",
    "max_calls_per_minute",
    "max_open_sessions",
    "max_bytes_per_day",
    "idle_seconds",
)
"""The options about what callers may choose and take."""
REPLICA_OPTIONS: Final = ("store_key_file", "lease_seconds")
"""The options about a store that several processes share."""
ANCHOR_OPTIONS: Final = ("anchor_file", "anchor_url", "anchor_every", "signing_key")
"""The options about where the heads of ledgers are kept."""
ENGINE_OPTIONS: Final = (
    "engine",
    "engine_address",
    "engine_namespace",
    "engine_queue",
    "advance_turns",
    "max_turns",
)
"""The options about what drives turns."""
LOG_OPTIONS: Final = ("log_level", "log_format", "otlp")
"""The options about what a runtime tells of itself."""
NOTIFY_OPTIONS: Final = (
    "notify_url",
    "notify_url_file",
    "notify_secret_file",
    "notify_event",
    "notify_format",
    "notify_link",
)
"""The options of one webhook."""
HTTP_WATCH_OPTIONS: Final = (
    "access_log",
    "metrics",
    "metrics_listen",
    "metrics_by_principal",
)
"""The options about what a server over HTTP tells of itself."""


_ONLY_WHERE_TAKEN: Final = frozenset(
    {
        "store",
        "adapter",
        "instructions",
        "approver_place",
        "reload",
        *ANCHOR_OPTIONS,
        *ENGINE_OPTIONS,
        *LOG_OPTIONS,
        *NOTIFY_OPTIONS,
        *HTTP_WATCH_OPTIONS,
    }
)
"""Settings of the project that do not concern a command without the option."""


def options_in_force(taken: dict[str, Any]) -> RuntimeOptions:
    """The options of a command, and the project's settings for what it has no option for."""
    project = current_project()
    others: dict[str, Any] = {}
    if project is not None:
        for name, setting in _OPTIONS.items():
            if name not in taken and name not in _ONLY_WHERE_TAKEN:
                others[name] = setting.in_project(project)
    values = {name: value for name, value in {**others, **taken}.items() if value is not None}
    return RuntimeOptions(
        project=project, taken=frozenset(taken), uses_model="adapter" in taken, **values
    )


def options_again(options: RuntimeOptions) -> RuntimeOptions:
    """The options of a running command, with what the project file says now. Raises `UsageError`,
    also when the file is gone.
    """
    project = current_choice().read()
    if project is None:
        if options.project is not None:
            raise UsageError(f"{options.project.file} is gone")
        return options
    values: dict[str, Any] = {}
    for name, setting in _OPTIONS.items():
        concerns = name in options.taken or name not in _ONLY_WHERE_TAKEN
        if concerns and not is_on_command_line(name):
            if name == "store" and setting.in_environment() is not None:
                continue
            value = setting.in_project(project)
            values[name] = setting.default if value is None else value
    return replace(options, project=project, **values)


def takes_runtime_options(*names: str) -> Callable[[Command], Command]:
    """Add shared options to a command, which gets their values as its parameter `options`."""
    options = [
        option(name, option_of(setting), setting.default)
        for name, setting in _OPTIONS.items()
        if name in names
    ]
    return takes_options("options", options, options_in_force)


def run_hosted(
    options: RuntimeOptions,
    serve: Callable[[Runtime], Awaitable[T]],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Build the runtime, let `serve` start and close it, and return the result of `serve`. A fault
    in the options ends the command with status 1.

    A command whose stdout is a protocol claims its pipes first: modules of the host may print.
    """
    return _run(options, lambda host: serve(host.runtime), loop_factory)


def _run(
    options: RuntimeOptions,
    serve: Callable[[HostedRuntime], Awaitable[T]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None,
) -> T:
    import asyncio

    from toolcrib.project.runtime import hosted_runtime as hosted

    async def served() -> T:
        async with hosted(options, lambda text: show_note(text, "yellow")) as host:
            return await serve(host)

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(served())
    except BrokenPipeError:
        # The reader of the output has gone, which is no fault of the command.
        raise
    except (Refused, UsageError, StoreError, OSError) as error:
        fail(str(error))


@asynccontextmanager
async def hosted_runtime(options: RuntimeOptions) -> AsyncGenerator[Runtime]:
    """The runtime of the options, not started. Its store is closed after the block."""
    from toolcrib.project.runtime import hosted_runtime as hosted

    async with hosted(options, lambda text: show_note(text, "yellow")) as host:
        yield host.runtime


def check_model(options: RuntimeOptions) -> None:
    """Refuse instructions that no model would read."""
    if options.instructions and not options.has_model:
        raise typer.BadParameter(
            "instructions are for a model, and there is none; name it with --adapter MODULE:NAME, "
            "or as model: in toolcrib.yaml"
        )


def run_served(
    options: RuntimeOptions,
    serve: Callable[[Runtime], Awaitable[T]],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    log_level: LogLevel = "warning",
) -> T:
    """As `run_hosted`, for a runtime that others use: it says what it serves, it reloads, and it
    logs from `log_level` on unless the options say otherwise.
    """
    from toolcrib.cli.server_watch import exported, log_runtime, written_logs

    if options.reload:
        require_extra("reload", "--reload")

    async def reported(host: HostedRuntime) -> T:
        for line, style in served_lines(host.runtime, options):
            show_note(line, style)
        log_runtime(host.runtime)
        async with exported(host.runtime, options), reloads(host, options):
            return await serve(host.runtime)

    with written_logs(options, log_level):
        return _run(options, reported, loop_factory)


@asynccontextmanager
async def reloads(host: HostedRuntime, options: RuntimeOptions) -> AsyncGenerator[None]:
    """Reload on SIGHUP while the block runs, and with `--reload` when a file changes."""
    import asyncio
    import signal

    from toolcrib.project.reload import ProjectReload, reload_on

    reload = ProjectReload(host, options, lambda: options_again(options), _show_reload)
    hangups: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, _on_hangup, hangups)
    tasks = [asyncio.create_task(reload_on(hangups.get, reload))]
    if options.reload:
        tasks.append(asyncio.create_task(reload.watch()))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _on_hangup(hangups: asyncio.Queue[None]) -> None:
    """Reload; or stop, when the terminal that the command was typed at is gone."""
    import os
    import signal
    import termios

    try:
        termios.tcgetattr(2)
        is_gone = False
    except termios.error as error:
        is_gone = error.args[0] == errno.EIO
    if is_gone:
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        hangups.put_nowait(None)


def _show_reload(report: ReloadReport) -> None:
    if report.fault is not None:
        show_note("not reloaded, everything stays as it was:", "red")
        show_note(report.fault, "red")
        return
    show_note(f"reloaded; {'; '.join(report.changes) or 'nothing changed'}")
    if report.lost_policy:
        show_note(_NO_POLICY, "red")
    if report.needs_restart:
        show_note(f"needs a restart to take effect: {', '.join(report.needs_restart)}", "yellow")


_NO_POLICY: Final = (
    "WARNING: NO POLICY. Whoever may call tools may call all of them; only those that ask for "
    "approval themselves are asked about. Write one, and name it with --policy FILE or as policy: "
    "in toolcrib.yaml."
)


def served_lines(runtime: Runtime, options: RuntimeOptions) -> Iterator[tuple[str, str | None]]:
    """What a runtime serves, and what it does without, for the person who started it."""
    config = runtime.config
    if options.project is not None:
        yield f"project: {options.project.file}", None
    yield _tools_line(runtime), None
    if config.mcp_servers:
        yield f"MCP servers: {', '.join(server.name for server in config.mcp_servers)}", None
    if config.policy is not None:
        count = len(config.policy.rules)
        yield f"policy: {options.policy}, {count} {'rule' if count == 1 else 'rules'}", None
    else:
        yield _NO_POLICY, "red"
    if options.store is None:
        yield "store: none; sessions, approvals and grants are lost at the end", "yellow"
    else:
        yield f"store: {options.store}", None


def _tools_line(runtime: Runtime) -> str:
    config = runtime.config
    own = len(runtime.registry.names())
    counts = [f"{own} tools" if own != 1 else "1 tool"]
    if config.toolsets:
        counts.append(f"{len(config.toolsets)} toolsets")
    if config.hosted_tools:
        counts.append(f"hosted: {', '.join(tool.name for tool in config.hosted_tools)}")
    if counts == ["0 tools"] and not config.mcp_servers:
        return "no tools: sessions have only those that their clients bring"
    return ", ".join(counts)
