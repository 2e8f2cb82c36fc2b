"""Containers in the provider's words, which every tool that runs in one has in common."""

from __future__ import annotations

from typing import Any, assert_never

from toolcrib.tools.code_interpreter import (
    AutoContainer,
    Container,
    ExistingContainer,
    NetworkPolicy,
)
from toolcrib.tools.options import ToolCaller


def wire_container(container: Container) -> str | dict[str, Any]:
    """The container of a code interpreter: an existing one is only its id."""
    match container:
        case ExistingContainer(id=container_id):
            return container_id
        case AutoContainer():
            return {"type": "auto", **wire_options(container)}
        case _:
            assert_never(container)


def wire_options(container: AutoContainer) -> dict[str, Any]:
    """A new container's options in the provider's words."""
    wire: dict[str, Any] = {"memory_limit": container.memory_limit}
    if container.file_ids:
        wire["file_ids"] = list(container.file_ids)
    if container.network_policy is not None:
        wire["network_policy"] = wire_network(container.network_policy)
    return wire


def wire_network(policy: NetworkPolicy) -> dict[str, Any]:
    """A network policy in the provider's words."""
    if not policy.allowed_domains:
        return {"type": "disabled"}
    wire: dict[str, Any] = {"type": "allowlist", "allowed_domains": list(policy.allowed_domains)}
    if policy.domain_secrets:
        wire["domain_secrets"] = [
            {"domain": secret.domain, "name": secret.name, "value": secret.value}
            for secret in policy.domain_secrets
        ]
    return wire


def wire_callers(callers: tuple[ToolCaller, ...] | None) -> dict[str, Any]:
    """Who may call a tool, where that is not left to the provider."""
    return {} if callers is None else {"allowed_callers": list(callers)}
