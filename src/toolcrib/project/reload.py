"""Reload of a running project: tools, modules, policy, hooks, MCP servers and the project file.

All of it changes in one step. If anything has a fault, nothing changes and the fault is reported.
What cannot change while the process runs is reported as needing a restart. Tokens are not here: a
server looks at its file of tokens whenever it checks one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.errors import Refused, StoreError, UsageError
from toolcrib.host_tools.availability import describe_error
from toolcrib.host_tools.module_graph import modules_in, reload_order
from toolcrib.host_tools.python_modules import reloaded
from toolcrib.host_tools.registry import HostToolRegistry
from toolcrib.host_tools.reload import digest_of, file_changes
from toolcrib.project.runtime import (
    HostedRuntime,
    RuntimeOptions,
    load_tools,
    runtime_config,
    servers_of,
)

if TYPE_CHECKING:
    from toolcrib.host_tools.loader import LoadedHostTools
    from toolcrib.host_tools.registrations import RegistryChange
    from toolcrib.project.project import Project

logger = logging.getLogger(__name__)

LIVE_KEYS: Final = (
    "tools",
    "toolsets",
    "hosted_tools",
    "mcp_servers",
    "mcp_servers_file",
    "hooks",
    "policy",
    "approver",
    "approve_own_calls",
    "instructions",
    "limits.call",
    "serve.allow_egress",
    "serve.allow_cwd",
    "serve.allow_env",
    "client",
)
"""The keys whose changes take effect while the process runs."""
_NOT_LIVE: Final = frozenset({"tools.bind_to"})


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """What a reload did: the changes, or the fault for which nothing changed."""

    changes: tuple[str, ...] = ()
    """A sentence for each."""
    needs_restart: tuple[str, ...] = ()
    """The keys of the project file whose changes take effect at the next start."""
    fault: str | None = None
    lost_policy: bool = False
    """Whether there was a policy, and now there is none."""


class ProjectReload:
    """Keeps a runtime up to date with the files that it was built from.

    `read_options` reads the project again and returns what is in force now.
    """

    def __init__(
        self,
        host: HostedRuntime,
        options: RuntimeOptions,
        read_options: Callable[[], RuntimeOptions],
        report: Callable[[ReloadReport], None],
    ) -> None:
        self._runtime = host.runtime
        self._loaded = host.loaded
        self._servers = host.servers
        self._options = options
        self._read_options = read_options
        self._report = report
        self._lock = asyncio.Lock()
        self._first_project = options.project
        self._modules = self._module_sources()
        self._running = self._look()
        """The digests of the files that what is served was built from."""
        self._seen = self._running
        """The digests at the last look, also of a file with a fault."""

    async def watch(self) -> None:
        """Reload whenever a file changes, until cancelled. Needs `watchfiles`."""
        async for _ in file_changes(self.files):
            if self._look() != self._seen:
                await self.reload()

    def files(self) -> frozenset[Path]:
        """The files that what is served comes from."""
        options, project = self._options, self._options.project
        files = [*(options.host_tools or ()), *self._modules.values()]
        files += [path for path in (options.policy,) if path is not None]
        pins = (server.terms.pins for server in self._servers)
        files += [Path(each.file) for each in pins if each is not None]
        if project is not None:
            named = (project.file, project.instructions_file, project.mcp_servers_file)
            files += [path for path in named if path is not None]
        return frozenset(path.absolute() for path in files)

    async def reload(self) -> ReloadReport:
        """Take over what the files say now, or nothing of it."""
        async with self._lock:
            # Before anything is read: what changes from here on is seen at the next look.
            seen = self._seen = self._look()
            try:
                report = await self._reload(self._stale_modules(seen))
            except (UsageError, StoreError, OSError) as error:
                report = ReloadReport(fault=str(error))
            except Refused:
                # The runtime is closing.
                return ReloadReport()
            except Exception as error:
                # Code of the project may raise anything. The watch must outlive it, or the next
                # change of the policy would be missed without a word.
                logger.exception("the reload failed")
                report = ReloadReport(fault=describe_error(error))
            else:
                self._modules = self._module_sources()
                now = self._look()
                self._running = self._seen = {path: seen.get(path, now[path]) for path in now}
        self._report(report)
        return report

    async def _reload(self, stale: list[str]) -> ReloadReport:
        options = self._read_options()
        registry = self._runtime.registry
        with reloaded(stale):
            scratch = HostToolRegistry()
            loaded = await load_tools(options, scratch, needs_tools=False)
            servers = servers_of(options.project, loaded)
            # Without a store and a model: those that the runtime has stay.
            without = replace(options, store=None, adapter=None, uses_model=False)
            config = runtime_config(without, registry, servers)
            changes = registry.adopt(_groups(self._loaded), scratch)
            self._runtime.reconfigure(config)
        sentences = [*_tool_changes(changes), *_other_changes(options, stale)]
        lost_policy = options.policy is None and self._options.policy is not None
        restart = _restart_keys(self._first_project, options.project)
        old, self._options, self._loaded = self._servers, options, loaded
        if servers != old:
            self._servers = servers
            await self._runtime.service.remount_servers(servers)
            names = ", ".join(server.name for server in servers) or "none"
            sentences.append(f"the mounted servers are now: {names}")
        return ReloadReport(tuple(sentences), restart, lost_policy=lost_policy)

    def _look(self) -> dict[Path, str | None]:
        return {path: digest_of(path) for path in self.files()}

    def _module_sources(self) -> dict[str, Path]:
        project = self._options.project
        folder = Path.cwd() if project is None else project.folder
        modules = modules_in(folder)
        # The adapter that the runtime has stays: executing its module again would change nothing.
        model = (self._options.adapter or "").partition(":")[0]
        return {name: path for name, path in modules.items() if name != model}

    def _stale_modules(self, seen: Mapping[Path, str | None]) -> list[str]:
        changed = [
            name
            for name, path in self._modules.items()
            if seen.get(path.absolute()) != self._running.get(path.absolute())
        ]
        return reload_order(changed, self._modules)


def _groups(loaded: LoadedHostTools) -> list[str]:
    """The origins of the tools that were loaded."""
    files = [file.file for file in loaded.files]
    modules = [f"module {name}" for name in loaded.modules]
    return [*files, *modules, *(f"plugin {plugin.name}" for plugin in loaded.plugins)]


def _tool_changes(changes: tuple[RegistryChange, ...]) -> list[str]:
    names = sorted(change.name for change in changes if change.old != change.new)
    return [f"changed tools: {', '.join(names)}"] if names else []


def _other_changes(new: RuntimeOptions, modules: list[str]) -> list[str]:
    sentences: list[str] = []
    if modules:
        sentences.append(f"modules executed again: {', '.join(modules)}")
    if new.policy is not None:
        sentences.append(f"policy: {new.policy}")
    return sentences


def _restart_keys(old: Project | None, new: Project | None) -> tuple[str, ...]:
    """The keys with other values than at the start that this process cannot take over."""
    if old is None or new is None:
        return ()
    before, after = _leaves(old), _leaves(new)
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return tuple(key for key in changed if not _is_live(key))


def _is_live(key: str) -> bool:
    return key not in _NOT_LIVE and any(
        key == live or key.startswith(f"{live}.") for live in LIVE_KEYS
    )


def _leaves(section: object, path: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for each in fields(cast("Any", section)):
        if not path and each.name in ("file", "lines", "instructions_file"):
            continue
        key, value = f"{path}{each.name}", getattr(section, each.name)
        values |= _leaves(value, f"{key}.") if is_dataclass(value) else {key: value}
    return values


async def reload_on(event: Callable[[], Awaitable[object]], reload: ProjectReload) -> None:
    """Reload after each event, such as a signal, until cancelled."""
    while True:
        await event()
        await reload.reload()
