"""Reads a container as a dict in the words of OpenAI's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolcrib.errors import InvalidTool
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    Container,
    ExistingContainer,
    NetworkPolicy,
)
from toolcrib.vfs import HostMount, VfsPath

_AUTO_KEYS = frozenset({"type", "memory_limit", "file_ids", "network_policy", "host_mounts"})
_EXISTING_KEYS = frozenset({"id", "memory_limit"})


def read_container(name: str, container: Mapping[str, Any]) -> Container:
    """The container that the dict describes; unknown keys are refused, not dropped."""
    is_existing = "id" in container
    _refuse_unknown(name, container, _EXISTING_KEYS if is_existing else _AUTO_KEYS)
    if is_existing:
        return ExistingContainer(container["id"], container.get("memory_limit"))
    if container.get("type") != "auto":
        raise InvalidTool(
            f"tool {name!r}: container must have the id of a container or type 'auto', "
            f"not {dict(container)!r}"
        )
    return AutoContainer(
        memory_limit=container.get("memory_limit") or "1g",
        file_ids=tuple(container.get("file_ids") or ()),
        network_policy=_read_network(name, container.get("network_policy")),
    )


def _read_network(name: str, policy: Any) -> NetworkPolicy | None:
    match policy:
        case None | NetworkPolicy():
            return policy
        case {"type": "disabled"}:
            return NetworkPolicy()
        case {"type": "allowlist", "allowed_domains": [_, *_] as domains}:
            return NetworkPolicy(tuple(cast("list[str]", domains)))
        case _:
            raise InvalidTool(
                f"tool {name!r}: container.network_policy must be of type 'disabled', or of type "
                f"'allowlist' with allowed_domains, not {policy!r}"
            )


def read_mounts(name: str, container: Mapping[str, Any]) -> tuple[HostMount, ...]:
    """The files of the host that the dict names. OpenAI knows no such key: they are uploaded."""
    mounts = container.get("host_mounts") or ()
    return tuple(_read_mount(name, mount) for mount in mounts)


def _read_mount(name: str, mount: Any) -> HostMount:
    match mount:
        case HostMount():
            return mount
        case {"host_path": str()}:
            return _mount_of(name, cast("dict[str, Any]", mount))
        case _:
            raise InvalidTool(f"tool {name!r}: {mount!r} in host_mounts is not a HostMount")


def _mount_of(name: str, mount: dict[str, Any]) -> HostMount:
    _refuse_unknown(name, mount, frozenset(HostMount.__slots__))
    fields = {key: _as_tuple(value) for key, value in mount.items()}
    path = fields.pop("mount_path", None)
    return HostMount(mount_path=VfsPath.parse(path) if path else None, **fields)


def _as_tuple(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _refuse_unknown(name: str, given: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(given.keys() - known)
    if unknown:
        raise InvalidTool(
            f"tool {name!r}: the container has unknown keys {', '.join(unknown)}; "
            f"known are {', '.join(sorted(known))}"
        )
