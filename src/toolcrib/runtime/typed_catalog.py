"""The typed operations about the tools, the policy and the MCP servers of a runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.runtime.catalog_messages import (
        Catalog,
        CatalogOrder,
        CatalogTool,
        PolicyExplanation,
        Servers,
    )
    from toolcrib.runtime.messages import Time
    from toolcrib.runtime.policy_messages import PolicyInForce, PolicyPreview, PolicyReport
    from toolcrib.tools.identity import Place


class TypedCatalog(ABC):
    """One method for each operation. Each raises `Refused` when the operation is not done."""

    @abstractmethod
    async def run_operation(self, name: str, params: Mapping[str, Any]) -> Any:
        """Run an operation by its name; the result is of the operation's result type."""

    async def list_catalog(
        self,
        *,
        search: str | None = None,
        source: str | None = None,
        place: Place | None = None,
        withheld: bool | None = None,
        since: Time | None = None,
        until: Time | None = None,
        order: CatalogOrder = "name",
        descending: bool = False,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Catalog:
        """A page of the tools of the runtime, with what their calls since a time came to."""
        params = {
            "search": search,
            "source": source,
            "place": place,
            "withheld": withheld,
            "since": since,
            "until": until,
            "order": order,
            "descending": descending,
            "cursor": cursor,
            "limit": limit,
        }
        return await self.run_operation("catalog.list", _set(params))

    async def get_catalog_tool(
        self,
        name: str,
        *,
        source: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> CatalogTool:
        """One tool of the runtime in full."""
        params = {"name": name, "source": source, "since": since, "until": until}
        return await self.run_operation("catalog.get", _set(params))

    async def explain_policy(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        source: str | None = None,
        principal: str | None = None,
        groups: Sequence[str] | None = None,
    ) -> PolicyExplanation:
        """What would become of a call, and the part of every rule in it. Only auditors and admins
        may ask about the calls of another principal, or of groups.
        """
        params = {
            "tool": tool,
            "arguments": None if arguments is None else dict(arguments),
            "source": source,
            "principal": principal,
            "groups": None if groups is None else list(groups),
        }
        return await self.run_operation("policy.explain", _set(params))

    async def get_policy(self) -> PolicyInForce:
        """The policy in force, with its text and what its file says by now."""
        return await self.run_operation("policy.get", {})

    async def check_policy(self, text: str) -> PolicyReport:
        """What is wrong in the text of a policy, and what may surprise."""
        return await self.run_operation("policy.check", {"text": text})

    async def preview_policy(
        self,
        draft: str | None = None,
        *,
        rule: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        principal: str | None = None,
        owner: str | None = None,
        tool: str | None = None,
        source: str | None = None,
        session_id: str | None = None,
        cursor: str | None = None,
        limit: int = 1_000,
    ) -> PolicyPreview:
        """What a draft of the policy, or one more rule, would have changed in past calls."""
        params = {
            "draft": draft,
            "rule": rule,
            "since": since,
            "until": until,
            "principal": principal,
            "owner": owner,
            "tool": tool,
            "source": source,
            "session_id": session_id,
            "cursor": cursor,
            "limit": limit,
        }
        return await self.run_operation("policy.preview", _set(params))

    async def list_servers(self) -> Servers:
        """The mounted MCP servers: how they are, and what became of their tools."""
        return await self.run_operation("servers.list", {})


def _set(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}
