"""The options of a new container, which every tool that runs in one has in common."""

from __future__ import annotations

from typing import Any

from toolcrib.tools.code_interpreter import AutoContainer, NetworkPolicy


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
    return {"type": "allowlist", "allowed_domains": list(policy.allowed_domains)}
