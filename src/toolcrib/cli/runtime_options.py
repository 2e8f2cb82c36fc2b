"""The options of commands that host a runtime, and the runtime that they describe.

`takes_runtime_options` adds the shared options to a command, which gets their values as one
`RuntimeOptions`. With `--reload`, host tools files are loaded again when they change.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import typer

from toolcrib.cli.output import fail, missing_packages, require_extra, show_note
from toolcrib.errors import InvalidTool, Refused, StoreError, UsageError
from toolcrib.tools.identity import BindTo

if TYPE_CHECKING:
    import asyncio

    from toolcrib.approval.approvers import Approver
    from toolcrib.host_tools.host_tools_file import HostToolsFile
    from toolcrib.host_tools.loader import LoadedHostTools
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.host_tools.reload import Reload
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.runtime.ownership import CallerChoices
    from toolcrib.runtime.quotas import PrincipalLimits
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.store.anchors import AnchorOptions, AnchorTarget


@asynccontextmanager
async def reload_task(runtime: Runtime, files: Sequence[HostToolsFile]) -> AsyncGenerator[None]:
    """Reload host tools files of a runtime when they change. A changed file replaces the old one
    in one step; a broken file changes nothing.
    """
    import asyncio

    from toolcrib.host_tools.reload import HostToolsWatcher

    if files:
        require_extra("reload", "--reload")
    report = _ReloadReport(runtime, files)
    watchers = [
        HostToolsWatcher(runtime.registry, file.file, on_reload=report.on_reload) for file in files
    ]
    for watcher in watchers:
        await watcher.load()
    tasks = [asyncio.create_task(watcher.watch()) for watcher in watchers]
    try:
        yield
    finally:
        tasks += report.remount_tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _ReloadReport:
    """Prints the result of each reload, and mounts the MCP servers that the file names now."""

    def __init__(self, runtime: Runtime, files: Sequence[HostToolsFile]) -> None:
        self._runtime = runtime
        self._files = {file.file: file for file in files}
        self.remount_tasks: set[asyncio.Task[None]] = set()

    def on_reload(self, reload: Reload) -> None:
        """Print the result, and remount the servers if they have changed."""
        if reload.loaded is None:
            show_note(f"{reload.file} was not loaded, the old tools stay:", "red")
            show_note(reload.fault or "", "red")
            return
        names = ", ".join(change.name for change in reload.changes) or "none"
        show_note(f"{reload.file} was reloaded; changed tools: {names}")
        before, self._files[reload.file] = self._files[reload.file], reload.loaded
        if reload.loaded.mcp_servers != before.mcp_servers:
            import asyncio

            task = asyncio.create_task(self._remount(reload.file))
            self.remount_tasks.add(task)
            task.add_done_callback(self.remount_tasks.discard)

    async def _remount(self, file: str) -> None:
        from toolcrib.host_tools.loader import check_server_names

        files = list(self._files.values())
        servers = [server for loaded in files for server in loaded.mcp_servers]
        try:
            check_server_names(files)
            if servers and (missing := missing_packages("mcp")):
                raise InvalidTool(f"mcp_servers needs {', '.join(missing)}")
            await self._runtime.service.remount_servers(servers)
        except InvalidTool as error:
            show_note(f"the old servers stay: {error}", "red")
        except Refused:
            # The runtime is closing, and disconnects its servers itself.
            return
        else:
            show_note(f"{file}: the mounted servers are now: {_server_names(self._files[file])}")


def _server_names(file: HostToolsFile) -> str:
    return ", ".join(server.name for server in file.mcp_servers) or "none"


T = TypeVar("T")

HostToolFiles = Annotated[
    list[Path] | None,
    typer.Option("--host-tools", metavar="FILE", help="Tools in a YAML file; may be repeated."),
]
HostToolModules = Annotated[
    list[str] | None,
    typer.Option(
        "--host-tools-module", metavar="MODULE", help="Tools in a module; may be repeated."
    ),
]
Plugins = Annotated[
    bool, typer.Option("--plugins/--no-plugins", help="Also load the tools of installed packages.")
]
SessionStore = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="Keep sessions in an SQLite file."),
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="The policy, a YAML file.")
]
ExpectedTools = Annotated[
    list[str] | None,
    typer.Option(
        "--expect-tool",
        metavar="NAME",
        help="A tool that comes later, such as a client's; the policy may name it. A glob, too.",
    ),
]
AdapterName = Annotated[
    str | None,
    typer.Option("--adapter", metavar="MODULE:NAME", help="The adapter of the model."),
]
Instructions = Annotated[
    str,
    typer.Option("--instructions", metavar="TEXT", help="System instructions for the model."),
]
ApproveOwnCalls = Annotated[
    bool,
    typer.Option("--approve-own-calls", help="Let approvers approve calls that they asked for."),
]
AllowEgress = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-egress",
        metavar="HOST|NETWORK",
        help="An internal host, HOST:PORT or network (10.0.0.0/8) that callers may name as an "
        "address; may be repeated.",
    ),
]
AllowCwd = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-cwd",
        metavar="ROOT",
        help="A directory within which callers may choose the cwd of their sessions; may be "
        "repeated.",
    ),
]
AllowEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-env",
        metavar="NAME",
        help="A variable that callers may set in their sessions; may be repeated.",
    ),
]


def _most(flag: str, what: str) -> Any:
    return typer.Option(flag, metavar="N", min=1, help=f"{what} of one principal, at most.")


MaxCalls = Annotated[int | None, _most("--max-calls", "Calls at once")]
CallRate = Annotated[int | None, _most("--max-calls-per-minute", "Calls in a minute")]
MaxOpenSessions = Annotated[int | None, _most("--max-open-sessions", "Open sessions")]
MaxBytes = Annotated[int | None, _most("--max-bytes-per-day", "Bytes of requests in a day")]
IdleSeconds = Annotated[
    float | None,
    typer.Option(
        "--idle-seconds",
        metavar="SECONDS",
        min=1,
        help="Let go of a session that nobody has used for so long; it comes back when needed.",
    ),
]
AnchorFileOption = Annotated[
    Path | None,
    typer.Option(
        "--anchor-file",
        metavar="FILE",
        help="Append the heads of all ledgers to this file, on another disk or machine.",
    ),
]
AnchorUrl = Annotated[
    str | None,
    typer.Option("--anchor-url", metavar="URL", help="POST the heads of all ledgers there."),
]
AnchorEvery = Annotated[
    str, typer.Option("--anchor-every", metavar="DURATION", help="How often heads are sent.")
]
SigningKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--signing-key",
        metavar="FILE",
        help="The Ed25519 key that signs the heads; `toolcrib audit keygen` makes one.",
    ),
]
ReloadOption = Annotated[
    bool, typer.Option("--reload", help="Reload the files of --host-tools when they change.")
]
BindToOption = Annotated[
    BindTo,
    typer.Option(
        "--bind-to",
        help="What approvals and grants are bound to besides a tool's declaration and options: its "
        "code, or its version when other code always gets another version.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """The values of the shared options of a command."""

    host_tools: Sequence[Path] | None = None
    host_tools_module: Sequence[str] | None = None
    plugins: bool = False
    store: Path | None = None
    policy: Path | None = None
    expect_tool: Sequence[str] | None = None
    adapter: str | None = None
    instructions: str = ""
    allow_egress: Sequence[str] | None = None
    allow_cwd: Sequence[Path] | None = None
    allow_env: Sequence[str] | None = None
    max_calls: int | None = None
    max_calls_per_minute: int | None = None
    max_open_sessions: int | None = None
    max_bytes_per_day: int | None = None
    idle_seconds: float | None = None
    anchor_file: Path | None = None
    anchor_url: str | None = None
    anchor_every: str = "60s"
    signing_key: Path | None = None
    reload: bool = False
    bind_to: BindTo = "code"
    approve_own_calls: bool = False
    approver: Approver | None = None
    """Who decides while a call waits; None leaves the request in the store."""
    drain_seconds: float | None = None
    """How long closing waits for running calls; None is the runtime's default."""

    @property
    def has_tools(self) -> bool:
        """Whether they name any tools."""
        return any((self.host_tools, self.host_tools_module, self.plugins))

    @property
    def is_local(self) -> bool:
        """Whether they name anything that only a runtime in this process uses."""
        return self.has_tools or any((self.store, self.policy, self.adapter))


_OPTIONS: Final[Mapping[str, tuple[Any, object]]] = {
    "host_tools": (HostToolFiles, None),
    "host_tools_module": (HostToolModules, None),
    "plugins": (Plugins, False),
    "store": (SessionStore, None),
    "policy": (PolicyFile, None),
    "expect_tool": (ExpectedTools, None),
    "adapter": (AdapterName, None),
    "instructions": (Instructions, ""),
    "allow_egress": (AllowEgress, None),
    "allow_cwd": (AllowCwd, None),
    "allow_env": (AllowEnv, None),
    "max_calls": (MaxCalls, None),
    "max_calls_per_minute": (CallRate, None),
    "max_open_sessions": (MaxOpenSessions, None),
    "max_bytes_per_day": (MaxBytes, None),
    "idle_seconds": (IdleSeconds, None),
    "anchor_file": (AnchorFileOption, None),
    "anchor_url": (AnchorUrl, None),
    "anchor_every": (AnchorEvery, "60s"),
    "signing_key": (SigningKeyFile, None),
    "reload": (ReloadOption, False),
    "bind_to": (BindToOption, "code"),
    "approve_own_calls": (ApproveOwnCalls, False),
}
"""The type and the default of each shared option."""

TOOL_OPTIONS: Final = ("host_tools", "host_tools_module", "plugins")
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
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in _OPTIONS.items()
            if name in names
        ]

        @functools.wraps(command)
        def with_options(**values: Any) -> None:
            options = RuntimeOptions(**{name: values.pop(name) for name in names})
            command(options=options, **values)

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
    from toolcrib.host_tools.loader import load_host_tools
    from toolcrib.host_tools.registry import host_tool_registry as registry

    with registry.borrowed():
        loaded = await load_host_tools(
            registry,
            files=options.host_tools or (),
            modules=options.host_tools_module or (),
            plugins=options.plugins,
        )
        _report(loaded)
        runtime = _runtime(options, registry, loaded.mcp_servers)
        try:
            async with reload_task(runtime, loaded.files if options.reload else ()):
                yield runtime
        finally:
            if runtime.config.adapter is not None:
                await runtime.config.adapter.aclose()
            runtime.store.close()


def _report(loaded: LoadedHostTools) -> None:
    if loaded.mcp_servers:
        require_extra("mcp", "mcp_servers")
    for plugin in loaded.plugins:
        if plugin.fault is not None:
            show_note(f"the plugin {plugin.name} was not loaded: {plugin.fault}", "yellow")


def _runtime(
    options: RuntimeOptions, registry: HostToolRegistry, mcp_servers: Sequence[McpServerConfig]
) -> Runtime:
    from toolcrib.approval.policy_file import load_policy
    from toolcrib.egress import EgressPolicy
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.runtime import create_runtime
    from toolcrib.store.sqlite import SqliteStore

    policy = None if options.policy is None else load_policy(options.policy)
    adapter = None if options.adapter is None else _adapter(options.adapter)
    config = RuntimeConfig(
        host_tool_registry=registry,
        mcp_servers=mcp_servers,
        policy=policy,
        expected_tools=options.expect_tool or (),
        adapter=adapter,
        instructions=options.instructions,
        approver=options.approver,
        approve_own_calls=options.approve_own_calls,
        bind_to=options.bind_to,
        egress=EgressPolicy.of(options.allow_egress or ()),
        callers_choose=_caller_choices(options),
        principal_limits=_principal_limits(options),
        anchors=_anchors(options),
        # Last, so that no error after it leaves it open.
        store=None if options.store is None else SqliteStore(options.store),
    )
    if options.drain_seconds is not None:
        config = replace(config, drain_seconds=options.drain_seconds)
    if options.idle_seconds is not None:
        config = replace(config, idle_seconds=options.idle_seconds)
    return create_runtime(config)


def _caller_choices(options: RuntimeOptions) -> CallerChoices:
    from toolcrib.runtime.ownership import CallerChoices

    roots = [str(root.absolute()) for root in options.allow_cwd or ()]
    return CallerChoices(roots=roots, variables=options.allow_env or ())


def _principal_limits(options: RuntimeOptions) -> PrincipalLimits:
    from toolcrib.runtime.quotas import PrincipalLimits

    limits = {
        "concurrent_calls": options.max_calls,
        "calls_per_minute": options.max_calls_per_minute,
        "open_sessions": options.max_open_sessions,
        "payload_bytes_per_day": options.max_bytes_per_day,
    }
    return PrincipalLimits(**{name: most for name, most in limits.items() if most is not None})


def _anchors(options: RuntimeOptions) -> AnchorOptions | None:
    from toolcrib.approval.duration import read_duration
    from toolcrib.store.anchors import AnchorFile, AnchorHook, AnchorKey, AnchorOptions

    targets: list[AnchorTarget] = []
    if options.anchor_file is not None:
        targets.append(AnchorFile(options.anchor_file))
    if options.anchor_url is not None:
        targets.append(AnchorHook(options.anchor_url))
    if not targets:
        if options.signing_key is not None:
            raise UsageError("--signing-key signs nothing without --anchor-file or --anchor-url")
        return None
    key = None if options.signing_key is None else AnchorKey.load(options.signing_key)
    return AnchorOptions(
        targets=targets, key=key, every_seconds=read_duration(options.anchor_every)
    )


def _adapter(place: str) -> Any:
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.host_tools.python_modules import import_named

    module, _, name = place.partition(":")
    adapter = getattr(import_named(module), name or "adapter", None)
    if not isinstance(adapter, PromptAdapter):
        raise UsageError(f"--adapter {place} is no adapter; write MODULE:NAME of an adapter")
    return adapter
