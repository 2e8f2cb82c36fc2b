"""The tools of a runtime, independent of any session: of the registry, of toolsets, of the model's
provider and of mounted MCP servers, with those that sessions do not get and the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.turn_tools import why_not_offered
from toolcrib.runtime.catalog_messages import ToolVisibility
from toolcrib.tools.identity import ToolRef
from toolcrib.tools.prepared_tool import PreparedTool, is_available, prepare

if TYPE_CHECKING:
    from toolcrib.host_tools.registrations import Registration
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.mcp_client.server import MountedServer
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.served_tools import ServedTools
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.store.store import Store
    from toolcrib.tools.audience import Audience
    from toolcrib.tools.tool import Tool


EVERY_SESSION: Final = ToolVisibility(requires=[])


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool of the runtime. One that is no valid tool is known by its name and source alone."""

    ref: ToolRef
    prepared: PreparedTool | None
    withheld: str | None = None
    """Why no session gets it, or nobody can call it now."""
    visibility: ToolVisibility = EVERY_SESSION
    visible_to: Audience | None = None
    """To whom its server is shown, for one that is no valid tool."""

    def is_shown_to(self, who: Principal) -> bool:
        """Whether a principal sees the tool, or audits those that others see."""
        audience = self.visible_to if self.prepared is None else self.prepared.tool.visible_to
        return audience is None or who.sees_all or audience.includes(who.name, who.groups)

    @property
    def is_callable(self) -> bool:
        """Whether somebody without a model can have it run in a session of their own."""
        is_run_here = self.ref.place in ("local", "sandbox")
        is_for_all = not self.visibility.requires
        return is_run_here and is_for_all and self.withheld is None


class ToolCatalog:
    """Finds every tool of a runtime."""

    def __init__(
        self,
        config: RuntimeConfig,
        store: Store,
        registry: HostToolRegistry,
        served: ServedTools,
        sessions: LiveSessions,
    ) -> None:
        self.config = config
        self.store = store
        self.registry = registry
        self._served = served
        self.sessions = sessions
        self._prepared: dict[int, PreparedTool] = {}

    @property
    def servers(self) -> Iterable[MountedServer]:
        """The mounted servers of the runtime."""
        return self.sessions.servers.shared

    def reconfigure(self, config: RuntimeConfig, served: ServedTools) -> None:
        """Use another configuration from now on."""
        self.config, self._served = config, served

    def tools(self, who: Principal) -> list[ListedTool]:
        """Every tool that a principal may know of. Of tools that only some sessions have, others
        than auditors see those of their own open sessions.
        """
        fresh: dict[int, PreparedTool] = {}
        hosts = self.registry.shared()
        others = {*self._served.of_toolsets, *self._served.hosted}
        taken = others | {each.definition.name for each in hosts}
        listed = [
            *(self._host(each, others, fresh) for each in hosts),
            *(self._of_toolset(tool, hosts, fresh) for tool in self._served.of_toolsets.values()),
            *(self._hosted(tool, who) for tool in self._served.hosted.values()),
            *self._of_servers(taken, fresh),
        ]
        # Only the tools of now: what was replaced is not kept alive.
        self._prepared = fresh
        return [tool for tool in listed if self._is_known(tool, who)]

    def _is_known(self, tool: ListedTool, who: Principal) -> bool:
        if not tool.is_shown_to(who):
            return False
        if who.sees_all or not tool.visibility.is_conditional:
            return True
        return any(
            live.session.owner == who.name and tool.ref.name in live.executor.tools
            for live in self.sessions
        )

    def _prepare(self, tool: Tool[Any, Any], fresh: dict[int, PreparedTool]) -> PreparedTool:
        # An entry keeps its tool alive, so no other tool can have the same id.
        prepared = self._prepared.get(id(tool)) or prepare(tool, bind_to=self.config.bind_to)
        fresh[id(tool)] = prepared
        return prepared

    def _host(
        self, registration: Registration, others: set[str], fresh: dict[int, PreparedTool]
    ) -> ListedTool:
        definition = registration.definition
        prepared = self._prepare(definition.declared, fresh)
        visibility = ToolVisibility(
            requires=list(definition.requires),
            is_conditional=definition.visible_when is not None,
            is_per_session=definition.factory is not None,
        )
        reason = _unavailable(prepared)
        if definition.name in others and not registration.override:
            reason = "a tool of a toolset or of the provider has that name"
        # A factory makes the handler here, for each session.
        ref = prepared.ref if definition.factory is None else replace(prepared.ref, place="local")
        return ListedTool(ref, prepared, reason, visibility)

    def _of_toolset(
        self,
        tool: Tool[Any, Any],
        hosts: Iterable[Registration],
        fresh: dict[int, PreparedTool],
    ) -> ListedTool:
        prepared = self._prepare(tool, fresh)
        is_replaced = any(each.override and each.definition.name == tool.name for each in hosts)
        reason = "a host tool takes its place" if is_replaced else _unavailable(prepared)
        visibility = ToolVisibility(requires=list(tool.requires))
        return ListedTool(prepared.ref, prepared, reason, visibility)

    def _hosted(self, prepared: PreparedTool, who: Principal) -> ListedTool:
        adapter, reason = self.config.adapter, _unavailable(prepared)
        if adapter is None:
            reason = "this runtime has no model that could be offered it; set an adapter"
        elif reason is None:
            caller = who.caller(is_model=True)
            reason = why_not_offered(prepared, self.config.policy, caller, adapter.name)
        return ListedTool(prepared.ref, prepared, reason)

    def _of_servers(self, taken: set[str], fresh: dict[int, PreparedTool]) -> Iterator[ListedTool]:
        sources: dict[str, str] = {}
        for server in self.servers:
            for name, tool in server.tools.served.items():
                prepared = self._prepare(tool, fresh)
                if name in taken:
                    reason = "another tool of the runtime has that name"
                elif name in sources:
                    reason = f"{sources[name]} has a tool of that name"
                elif server.fault is not None:
                    reason = f"its server is not connected: {server.fault}"
                else:
                    reason = None
                sources.setdefault(name, server.source)
                yield ListedTool(prepared.ref, prepared, reason)
            yield from _invalid(server)


def _unavailable(prepared: PreparedTool) -> str | None:
    return None if is_available(prepared.tool) else "it says that it cannot be used now"


def _invalid(server: MountedServer) -> Iterator[ListedTool]:
    audience = server.config.terms.visible_to
    for name, reason in server.tools.invalid.items():
        if name not in server.tools.served:
            ref = ToolRef(name, server.source, "0.0.0", "", "local")
            yield ListedTool(ref, None, reason, visible_to=audience)
