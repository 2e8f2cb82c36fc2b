"""What a command serves, as its options say it, and the runtime that comes of it.

Files of host tools that are loaded again when they change, and what is said about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from toolcrib.cli.extras import missing_packages, require_extra
from toolcrib.cli.output import fail, show_note
from toolcrib.errors import InvalidTool, Refused, StoreError, UsageError

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver
    from toolcrib.host_tools.host_tools_file import HostToolsFile
    from toolcrib.host_tools.loader import LoadedHostTools
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.host_tools.reload import Reload
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.runtime.runtime import Runtime


@asynccontextmanager
async def reload_task(runtime: Runtime, files: Sequence[HostToolsFile]) -> AsyncGenerator[None]:
    """Keep a runtime up with files that were loaded for it. A changed file takes the place of
    the old one in one step; one that is broken changes nothing.
    """
    from toolcrib.host_tools.reload import HostToolsWatcher

    following = _Following(runtime, files)
    watchers = [
        HostToolsWatcher(runtime.registry, each.file, on_reload=following.hear) for each in files
    ]
    for watcher in watchers:
        await watcher.load()
    tasks = [asyncio.create_task(watcher.watch()) for watcher in watchers]
    try:
        yield
    finally:
        tasks += following.remounting
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Following:
    def __init__(self, runtime: Runtime, files: Sequence[HostToolsFile]) -> None:
        self._runtime = runtime
        self._files = {each.file: each for each in files}
        self.remounting: set[asyncio.Task[None]] = set()

    def hear(self, found: Reload) -> None:
        """Say what came of a changed file, and mount the servers that it names now."""
        if found.loaded is None:
            show_note(f"{found.file} was not loaded, the tools of before stay:", "red")
            show_note(found.fault or "", "red")
            return
        names = ", ".join(change.name for change in found.changes) or "none"
        show_note(f"{found.file} was loaded again; changed tools: {names}")
        before, self._files[found.file] = self._files[found.file], found.loaded
        if found.loaded.mcp_servers != before.mcp_servers:
            task = asyncio.create_task(self._remount(found.file))
            self.remounting.add(task)
            task.add_done_callback(self.remounting.discard)

    async def _remount(self, file: str) -> None:
        from toolcrib.host_tools.loader import check_server_names

        files = list(self._files.values())
        servers = [server for each in files for server in each.mcp_servers]
        try:
            check_server_names(files)
            if servers and (lacking := missing_packages("mcp")):
                raise InvalidTool(f"mcp_servers needs {', '.join(lacking)}")
            await self._runtime.service.remount_servers(servers)
        except InvalidTool as error:
            show_note(f"the servers of before stay: {error}", "red")
        except Refused:
            # The runtime is closing, and leaves its servers by itself.
            return
        else:
            show_note(f"{file}: its servers are mounted now: {_told(self._files[file])}")


def _told(file: HostToolsFile) -> str:
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
    bool, typer.Option("--plugins/--no-plugins", help="Tools that installed packages bring.")
]
KeepIn = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="Keep sessions in an SQLite file."),
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="The policy, a YAML file.")
]
AdapterName = Annotated[
    str | None,
    typer.Option("--adapter", metavar="MODULE:NAME", help="The adapter of a model."),
]
Instructions = Annotated[
    str,
    typer.Option("--instructions", metavar="TEXT", help="What the model is told before a prompt."),
]
ReloadOption = Annotated[
    bool, typer.Option("--reload", help="Load the files of --host-tools again when they change.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """What the options of a command say."""

    files: Sequence[Path] | None = None
    modules: Sequence[str] | None = None
    plugins: bool = False
    store: Path | None = None
    policy: Path | None = None
    adapter: str | None = None
    instructions: str = ""
    reload: bool = False
    approver: Approver | None = None
    """Who is asked while a call waits; None leaves it to whoever looks into the store."""
    drain_seconds: float | None = None
    """How long closing waits for what runs; None is as long as a runtime does."""

    @property
    def has_tools(self) -> bool:
        """Whether they name any tools."""
        return any((self.files, self.modules, self.plugins))

    @property
    def is_local(self) -> bool:
        """Whether they name anything that a server elsewhere would not look at."""
        return self.has_tools or any((self.store, self.policy, self.adapter))


def run_hosted(
    asked: RuntimeOptions,
    serve: Callable[[Runtime], Awaitable[T]],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Build the runtime, have `serve` start and close it, and give what that gives. What cannot be
    loaded or opened ends the command with status 1.

    A command whose stdout is a protocol claims its pipes before: modules of the host may print.
    """

    async def served() -> T:
        async with hosted_runtime(asked) as runtime:
            return await serve(runtime)

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(served())
    except BrokenPipeError:
        # Whoever read the output left, which is no fault of what is served.
        raise
    except (Refused, UsageError, StoreError, OSError) as error:
        fail(str(error))


@asynccontextmanager
async def hosted_runtime(asked: RuntimeOptions) -> AsyncGenerator[Runtime]:
    """The runtime that the options ask for, not started. Its store is closed at the end."""
    from toolcrib.host_tools.loader import load_host_tools
    from toolcrib.host_tools.registry import HostToolRegistry

    registry = HostToolRegistry()
    files, modules = asked.files or (), asked.modules or ()
    loaded = await load_host_tools(registry, files=files, modules=modules, plugins=asked.plugins)
    _report(loaded)
    runtime = _runtime(asked, registry, loaded.mcp_servers)
    try:
        async with reload_task(runtime, loaded.files if asked.reload else ()):
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
    asked: RuntimeOptions, registry: HostToolRegistry, mcp_servers: Sequence[McpServerConfig]
) -> Runtime:
    from toolcrib.approval.policy_file import load_policy
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.runtime import create_runtime
    from toolcrib.store.sqlite import SqliteStore

    policy = None if asked.policy is None else load_policy(asked.policy)
    adapter = None if asked.adapter is None else _adapter(asked.adapter)
    config = RuntimeConfig(
        host_tool_registry=registry,
        mcp_servers=mcp_servers,
        policy=policy,
        adapter=adapter,
        instructions=asked.instructions,
        approver=asked.approver,
        # Last, because it is the one that has to be closed.
        store=None if asked.store is None else SqliteStore(asked.store),
    )
    if asked.drain_seconds is not None:
        config = replace(config, drain_seconds=asked.drain_seconds)
    return create_runtime(config)


def _adapter(place: str) -> Any:
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.host_tools.python_modules import import_named

    module, _, name = place.partition(":")
    found = getattr(import_named(module), name or "adapter", None)
    if not isinstance(found, PromptAdapter):
        raise UsageError(f"--adapter {place}: there is no adapter; write MODULE:NAME of one")
    return found
