"""The runtime that a project and the flags of a command describe."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolcrib.errors import InvalidTool, UsageError
from toolcrib.tools.identity import BindTo

if TYPE_CHECKING:
    from toolcrib.adapters.options import Budget
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.approval.approvers import Approver
    from toolcrib.calls.hooks import Hooks
    from toolcrib.calls.outcome import Limits
    from toolcrib.host_tools.loader import LoadedHostTools
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.notifications.options import NotificationEvent, NotificationOptions
    from toolcrib.prices.table import Prices
    from toolcrib.project.project import EngineKind, Project
    from toolcrib.project.settings import (
        LogFormatChoice,
        LogLevelChoice,
        NotificationFormatChoice,
    )
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.ownership import CallerChoices
    from toolcrib.runtime.quotas import PrincipalLimits
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.store.address import StoreAddress
    from toolcrib.store.anchors import AnchorOptions, AnchorTarget
    from toolcrib.store.kept_store import ReplicaOptions
    from toolcrib.store.retention import Retention
    from toolcrib.toolsets.toolset import Toolset

Report = Callable[[str], None]
"""Takes a message for the person who started the runtime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """The settings of a runtime that are in force: of flags, else of the project, else defaults."""

    host_tools: Sequence[Path] | None = None
    host_tools_module: Sequence[str] | None = None
    plugins: bool = False
    toolset: Sequence[str] | None = None
    store: StoreAddress | None = None
    store_key_file: Path | None = None
    lease_seconds: float | None = None
    policy: Path | None = None
    expect_tool: Sequence[str] | None = None
    hooks: Sequence[str] | None = None
    approver_place: str | None = None
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
    engine: EngineKind = "postgres"
    engine_address: str = "127.0.0.1:7233"
    engine_namespace: str = "default"
    engine_queue: str = "toolcrib"
    advance_turns: bool = True
    max_turns: int = 16
    reload: bool = False
    bind_to: BindTo = "code"
    approve_own_calls: bool = False
    log_level: LogLevelChoice | None = None
    log_format: LogFormatChoice = "text"
    access_log: bool = True
    otlp: bool = True
    metrics: bool = False
    metrics_listen: str | None = None
    metrics_by_principal: bool = False
    notify_url: str | None = field(default=None, repr=False)
    notify_url_file: Path | None = None
    notify_secret_file: Path | None = None
    notify_event: Sequence[str] | None = None
    notify_format: NotificationFormatChoice = "json"
    notify_link: str | None = None
    project: Project | None = None
    """The project file; its sections without flags are taken from it."""
    taken: frozenset[str] = frozenset()
    """The settings that the command has an option for."""
    uses_model: bool = False
    """Whether the model of the project is wanted: a command that needs none starts faster."""
    approver: Approver | None = None
    """Who decides while a call waits, in place of `approver_place`; None leaves the request in the
    store."""
    drain_seconds: float | None = None
    """How long closing waits for running calls; None is the project's or the runtime's default."""

    @property
    def has_tools(self) -> bool:
        """Whether they name any tools."""
        project = self.project
        return any((self.host_tools, self.host_tools_module, self.plugins, self.toolset)) or (
            project is not None
            and any((project.mcp_servers, project.mcp_servers_file, project.hosted_tools))
        )

    @property
    def has_model(self) -> bool:
        """Whether they name a model."""
        from toolcrib.project.model import is_chosen

        return self.adapter is not None or (
            self.project is not None and is_chosen(self.project.model)
        )


@dataclass(frozen=True, slots=True)
class HostedRuntime:
    """A runtime with what it was built from."""

    runtime: Runtime
    loaded: LoadedHostTools
    servers: tuple[McpServerConfig, ...]


@asynccontextmanager
async def hosted_runtime(options: RuntimeOptions, report: Report) -> AsyncGenerator[HostedRuntime]:
    """The runtime of the options, not started. Its model and its store are closed after the block.
    Raises `UsageError`.
    """
    from toolcrib.host_tools.registry import host_tool_registry as registry
    from toolcrib.runtime.runtime import create_runtime

    if options.project is not None:
        make_importable(options.project.folder)
    with registry.borrowed():
        loaded = await load_tools(options, registry)
        for file in loaded.files:
            for note in file.notes:
                report(note)
        for plugin in loaded.plugins:
            if plugin.fault is not None:
                report(f"the plugin {plugin.name} was not loaded: {plugin.fault}")
        servers = servers_of(options.project, loaded)
        runtime = create_runtime(runtime_config(options, registry, servers))
        try:
            yield HostedRuntime(runtime, loaded, servers)
        finally:
            if runtime.config.adapter is not None:
                await runtime.config.adapter.aclose()
            runtime.store.close()


def make_importable(folder: Path) -> None:
    """Make the modules of a project's folder importable, after installed ones."""
    from toolcrib.host_tools.python_modules import make_folder_importable

    make_folder_importable(folder)


async def load_tools(
    options: RuntimeOptions, registry: HostToolRegistry, *, needs_tools: bool = True
) -> LoadedHostTools:
    """Register the tools of files, modules and plugins, all of them or none. With `needs_tools` a
    module without any is a fault.
    """
    from toolcrib.host_tools.loader import load_host_tools

    files = [*(options.host_tools or ())]
    if options.project is not None and options.project.mcp_servers_file is not None:
        files.append(options.project.mcp_servers_file)
    return await load_host_tools(
        registry,
        files=files,
        modules=options.host_tools_module or (),
        plugins=options.plugins,
        needs_tools=needs_tools,
    )


def servers_of(project: Project | None, loaded: LoadedHostTools) -> tuple[McpServerConfig, ...]:
    """The MCP servers of a project and of the files. Raises `InvalidTool` for one name twice."""
    from toolcrib.mcp_client.config import server_from

    entries: Mapping[str, Any] = {} if project is None else project.mcp_servers
    folder = {} if project is None else {"cwd": str(project.folder)}
    own = [
        server_from(name, entry if "url" in entry else {**folder, **entry})
        for name, entry in entries.items()
    ]
    for file in loaded.files:
        for server in file.mcp_servers:
            if server.name in entries:
                raise InvalidTool(
                    f"{file.file}: mcp_servers.{server.name}: the project file has a server of "
                    "that name already"
                )
    servers = (*own, *loaded.mcp_servers)
    if servers and find_spec("mcp") is None:
        from toolcrib.extras import install_command

        raise UsageError(f"mcp_servers needs mcp; install it with: {install_command('mcp')}")
    return servers


def runtime_config(
    options: RuntimeOptions, registry: HostToolRegistry, servers: Sequence[McpServerConfig]
) -> RuntimeConfig:
    """The configuration of a runtime. Raises `UsageError`."""
    from toolcrib.approval.policy_file import load_policy
    from toolcrib.egress import EgressPolicy
    from toolcrib.project.hosted_tools import hosted_tools_of
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.store.kept_store import open_at

    project = options.project
    config = RuntimeConfig(
        host_tool_registry=registry,
        toolsets=_toolsets(options.toolset or ()),
        hosted_tools=() if project is None else hosted_tools_of(project),
        mcp_servers=servers,
        policy=None if options.policy is None else load_policy(options.policy),
        expected_tools=options.expect_tool or (),
        hooks=_hooks(options.hooks or ()),
        adapter=_adapter(options),
        instructions=options.instructions,
        approver=options.approver or _approver(options.approver_place),
        approve_own_calls=options.approve_own_calls,
        bind_to=options.bind_to,
        limits=_call_limits(project),
        budget=_budget(project),
        egress=EgressPolicy.of(options.allow_egress or ()),
        callers_choose=_caller_choices(options),
        principal_limits=_principal_limits(options),
        anchors=_anchors(options),
        notifications=notifications_of(options),
        retention=_retention(options),
        takes_turns=options.advance_turns,
        max_turns=options.max_turns,
        **_bounds(options),
    )
    # Last, so that no error before it leaves it open.
    prices = prices_of(project)
    if options.store is None:
        return config
    replica = replica_options(
        project, key_file=options.store_key_file, lease_seconds=options.lease_seconds
    )
    if options.engine == "temporal" and "engine" in options.taken:
        from toolcrib.project.engine import temporal_engine

        engine = temporal_engine(options, lease_seconds=replica.lease_seconds)
        config = replace(config, engine=engine)
    return replace(config, store=open_at(options.store, prices=prices, replica=replica))


def replica_options(
    project: Project | None, *, key_file: Path | None = None, lease_seconds: float | None = None
) -> ReplicaOptions:
    """How a process takes part in a shared store: as the options say, else the project."""
    from toolcrib.store.kept_store import ReplicaOptions

    section = None if project is None else project.replica
    values: dict[str, Any] = (
        {}
        if section is None
        else {
            "lease_seconds": section.lease_seconds,
            "uses_hints": section.hints,
            "uses_process_check": section.process_check,
            "key_file": section.key_file,
        }
    )
    given = {"key_file": key_file, "lease_seconds": lease_seconds}
    values |= {name: value for name, value in given.items() if value is not None}
    return ReplicaOptions(**{name: value for name, value in values.items() if value is not None})


def _bounds(options: RuntimeOptions) -> dict[str, Any]:
    """The bounds that have a default in the runtime, where they are set."""
    bounds: dict[str, Any] = {
        "drain_seconds": options.drain_seconds,
        "idle_seconds": options.idle_seconds,
    }
    if options.project is not None:
        limits = options.project.limits
        bounds["cwd"] = str(options.project.folder)
        for name in ("max_sessions", "max_payload_bytes", "event_backlog"):
            bounds[name] = getattr(limits, name)
        if options.drain_seconds is None:
            bounds["drain_seconds"] = limits.drain_seconds
    return {name: value for name, value in bounds.items() if value is not None}


def _call_limits(project: Project | None) -> Limits | None:
    from toolcrib.calls.outcome import Limits

    if project is None:
        return None
    bounds = {name: each for name, each in asdict(project.limits.call).items() if each is not None}
    return Limits(**bounds) if bounds else None


def _budget(project: Project | None) -> Budget | None:
    from toolcrib.adapters.options import Budget

    if project is None:
        return None
    prompt = asdict(project.limits.prompt)
    bounds = {name: each for name, each in prompt.items() if each is not None}
    return Budget(**bounds) if bounds else None


def _adapter(options: RuntimeOptions) -> PromptAdapter | None:
    from toolcrib.project.model import adapter_of, named_adapter

    if options.adapter is not None:
        return named_adapter(options.adapter, "--adapter")
    if options.project is None or not options.uses_model:
        return None
    return adapter_of(options.project.model)


def import_object(place: str, origin: str) -> Any:
    """The object at `MODULE:NAME`. `origin` is the flag or the key that names it."""
    from toolcrib.host_tools.python_modules import import_named

    module, _, name = place.partition(":")
    if not name:
        raise UsageError(f"{origin} {place}: write MODULE:NAME")
    try:
        return getattr(import_named(module), name)
    except AttributeError:
        raise UsageError(f"{origin} {place}: {module!r} has no {name!r}") from None


def _toolsets(places: Sequence[str]) -> list[Toolset]:
    from toolcrib.toolsets.toolset import Toolset

    toolsets: list[Toolset] = []
    for place in places:
        toolset = import_object(place, "toolsets")
        if callable(toolset) and not isinstance(toolset, Toolset):
            toolset = toolset()
        if not isinstance(toolset, Toolset):
            raise UsageError(
                f"toolsets {place} is {type(toolset).__name__}; name a Toolset, or a function that "
                "makes one"
            )
        toolsets.append(toolset)
    return toolsets


def _hooks(places: Sequence[str]) -> Hooks | None:
    from toolcrib.calls.hooks import Hooks

    listed: list[Hooks] = []
    for place in places:
        hooks = import_object(place, "hooks")
        if not isinstance(hooks, Hooks):
            raise UsageError(f"hooks {place} is {type(hooks).__name__}; name one of toolcrib.Hooks")
        listed.append(hooks)
    return Hooks.combined(listed) if listed else None


def _approver(place: str | None) -> Approver | None:
    if place is None:
        return None
    approver = import_object(place, "approver")
    if isinstance(approver, type) or not callable(getattr(approver, "ask", None)):
        raise UsageError(f"approver {place} is no approver; write one with `async def ask`")
    return approver


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


def notifications_of(options: RuntimeOptions) -> list[NotificationOptions]:
    """The webhooks of the project and of the flags, for a command that tells them. Raises
    `UsageError`.
    """
    if "notify_url" not in options.taken:
        return []
    from toolcrib.notifications.options import EVENTS, NotificationSource

    sources = [*(options.project.notifications if options.project is not None else ())]
    if options.notify_url is not None or options.notify_url_file is not None:
        sources.append(
            NotificationSource(
                url=options.notify_url,
                url_file=options.notify_url_file,
                events=cast("Sequence[NotificationEvent]", options.notify_event or EVENTS),
                secret_file=options.notify_secret_file,
                format=options.notify_format,
                link=options.notify_link,
            )
        )
    elif options.notify_secret_file or options.notify_event or options.notify_link:
        raise UsageError(
            "--notify-secret-file, --notify-event and --notify-link describe the webhook of "
            "--notify-url; give that too"
        )
    return [source.read() for source in sources]


def prices_of(project: Project | None) -> Prices | None:
    """The prices of a project; None when it has none of its own. Raises `UsageError`."""
    from toolcrib.prices.table import read_prices

    return None if project is None or project.prices is None else read_prices(project.prices)


def _retention(options: RuntimeOptions) -> Retention | None:
    """The retention of a server; a command that only passes by deletes nothing."""
    from toolcrib.store.retention import read_retention

    if options.project is None or "anchor_file" not in options.taken:
        return None
    section = asdict(options.project.retention)
    facts = {name: value for name, value in section.items() if value is not None}
    return read_retention(facts) if facts else None


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
