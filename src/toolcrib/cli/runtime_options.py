"""The options of commands that host a runtime, made from the table of settings.

`takes_runtime_options` adds the shared options to a command, which gets their values as one
`RuntimeOptions`: of the command line, else of the project file, else the defaults.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import typer

from toolcrib.cli.output import fail, show_note
from toolcrib.cli.project_options import current_project
from toolcrib.errors import Refused, StoreError, UsageError
from toolcrib.project.runtime import RuntimeOptions
from toolcrib.project.settings import RUNTIME_SETTINGS, Setting

if TYPE_CHECKING:
    import asyncio

    from toolcrib.runtime.runtime import Runtime

T = TypeVar("T")


def option_of(setting: Setting) -> Any:
    """The type of a setting's option, as Typer reads it."""
    return Annotated[
        setting.kind,
        typer.Option(
            setting.flag,
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
ANCHOR_OPTIONS: Final = ("anchor_file", "anchor_url", "anchor_every", "signing_key")
"""The options about where the heads of ledgers are kept."""


_ONLY_WHERE_TAKEN: Final = frozenset(
    {"store", "adapter", "instructions", "approver_place", "reload", *ANCHOR_OPTIONS}
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
    return RuntimeOptions(project=project, uses_model="adapter" in taken, **values)


def takes_runtime_options(
    *names: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add shared options to a command, which gets their values as its parameter `options`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY)
            for parameter in signature(command).parameters.values()
            if parameter.name != "options"
        ]
        shared = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                annotation=option_of(setting),
                default=setting.default,
            )
            for name, setting in _OPTIONS.items()
            if name in names
        ]

        @functools.wraps(command)
        def with_options(**values: Any) -> None:
            taken = {name: values.pop(name) for name in names}
            command(options=options_in_force(taken), **values)

        # Typer reads a command's options from its signature and its annotations.
        parameters = [*own, *shared]
        described: Any = with_options
        described.__signature__ = Signature(parameters)
        described.__annotations__ = {
            parameter.name: parameter.annotation for parameter in parameters
        }
        return with_options

    return decorate


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
    import asyncio

    async def served() -> T:
        async with hosted_runtime(options) as runtime:
            return await serve(runtime)

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
) -> T:
    """As `run_hosted`, for a runtime that others use: it says what it serves, and it reloads."""

    async def reported(runtime: Runtime) -> T:
        for line, style in served_lines(runtime, options):
            show_note(line, style)
        return await serve(runtime)

    return run_hosted(options, reported, loop_factory=loop_factory)


def served_lines(runtime: Runtime, options: RuntimeOptions) -> Iterator[tuple[str, str | None]]:
    """What a runtime serves, and what it does without, for the person who started it."""
    config = runtime.config
    if options.project is not None:
        yield f"project: {options.project.file}", None
    yield _tools_line(runtime), None
    if config.mcp_servers:
        yield f"MCP servers: {', '.join(server.name for server in config.mcp_servers)}", None
    if config.policy is not None:
        yield f"policy: {options.policy}, {len(config.policy.rules)} rules", None
    else:
        yield (
            "WARNING: NO POLICY. Whoever may call tools may call all of them; only those that ask "
            "for approval themselves are asked about. Write one, and name it with --policy FILE or "
            "as policy: in toolcrib.yaml.",
            "red",
        )
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
