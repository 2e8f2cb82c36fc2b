"""The records of containers and their files, and the options of a new container."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolcrib.embedded.containers.interpreter import WORK_AT
from toolcrib.embedded.faults import invalid

GIBIBYTE: Final = 1024**3
MEMORY: Final = {"1g": GIBIBYTE, "4g": 4 * GIBIBYTE, "16g": 16 * GIBIBYTE, "64g": 64 * GIBIBYTE}
IDLE_MINUTES: Final = 20
MAX_IDLE_MINUTES: Final = 20
MAX_FILES: Final = 50


@dataclass(frozen=True, slots=True)
class Container:
    """A folder that sandboxed code works in.

    A container expires after it was idle for `expires_minutes`; every use starts that time anew.
    An expired container stays listed, but its files and its interpreter are gone for good.
    """

    id: str
    name: str
    status: str
    created_at: int
    last_active_at: int
    expires_minutes: int
    memory_limit: str
    owner: str
    has_network: bool

    def is_expired(self, now: float) -> bool:
        """Whether the container was idle for too long."""
        return now >= self.last_active_at + 60 * self.expires_minutes

    def resource(self, now: float) -> dict[str, Any]:
        """The container as the API returns it."""
        network = {"type": "allowlist", "allowed_domains": ["*"]}
        return {
            "id": self.id,
            "object": "container",
            "name": self.name,
            "status": "expired" if self.is_expired(now) else self.status,
            "created_at": self.created_at,
            "last_active_at": self.last_active_at,
            "expires_after": {"anchor": "last_active_at", "minutes": self.expires_minutes},
            "memory_limit": self.memory_limit,
            "network_policy": network if self.has_network else {"type": "disabled"},
        }

    @classmethod
    def of(cls, row: sqlite3.Row) -> Container:
        """Read a row of the database."""
        facts = dict(row)
        has_network = json.loads(facts.pop("network_policy"))["type"] != "disabled"
        return cls(**facts, has_network=has_network)


@dataclass(frozen=True, slots=True)
class ContainerFile:
    """The record of a file; `path` is its path inside the sandbox."""

    id: str
    container_id: str
    path: str
    bytes: int
    source: str
    digest: str
    created_at: int

    @property
    def name(self) -> str:
        """The path below the folder of the container."""
        return self.path.removeprefix(f"{WORK_AT}/")

    @property
    def filename(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def resource(self) -> dict[str, Any]:
        """The file as the API returns it."""
        return {
            "id": self.id,
            "object": "container.file",
            "container_id": self.container_id,
            "created_at": self.created_at,
            "bytes": self.bytes,
            "path": self.path,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """The options of a new container."""

    name: str = "auto"
    minutes: int = IDLE_MINUTES
    memory_limit: str = "1g"
    file_ids: tuple[str, ...] = ()
    has_network: bool = False


def read_container_options(
    config: Mapping[str, Any], param: str, *, allow_network: bool
) -> ContainerOptions:
    """Read the options of a request. Raises `ApiFault` for an option that cannot be enforced."""
    memory = config.get("memory_limit")
    memory = "1g" if memory is None else memory
    if not isinstance(memory, str) or memory not in MEMORY:
        have = ", ".join(MEMORY)
        raise invalid(f"The memory limit must be one of {have}.", f"{param}.memory_limit")
    if config.get("skills"):
        raise invalid("There are no skills here.", f"{param}.skills")
    return ContainerOptions(
        name=str(config.get("name") or "auto")[:256],
        minutes=_minutes(config.get("expires_after"), param),
        memory_limit=memory,
        file_ids=_file_ids(config.get("file_ids"), param),
        has_network=_network(config.get("network_policy"), param, allow_network),
    )


def _minutes(config: object, param: str) -> int:
    if config is None:
        return IDLE_MINUTES
    facts = cast(dict[str, Any], config) if isinstance(config, dict) else {}
    minutes = facts.get("minutes")
    if facts.get("anchor") != "last_active_at" or type(minutes) is not int:
        raise invalid("Give an anchor of last_active_at, and minutes.", f"{param}.expires_after")
    if not 1 <= minutes <= MAX_IDLE_MINUTES:
        raise invalid(
            f"A container expires after 1 to {MAX_IDLE_MINUTES} minutes.",
            f"{param}.expires_after.minutes",
        )
    return minutes


def _file_ids(config: object, param: str) -> tuple[str, ...]:
    listed = (
        cast(list[object], config) if isinstance(config, list) else [] if config is None else [0]
    )
    if not all(isinstance(file_id, str) for file_id in listed):
        raise invalid("'file_ids' must be a list of ids.", f"{param}.file_ids")
    if len(listed) > MAX_FILES:
        raise invalid(f"At most {MAX_FILES} files can be given.", f"{param}.file_ids")
    return tuple(map(str, listed))


def _network(config: object, param: str, allow_network: bool) -> bool:
    if config is None:
        return False
    policy = cast(dict[str, Any], config) if isinstance(config, dict) else {}
    if policy.get("type") == "disabled":
        return False
    at = f"{param}.network_policy"
    if policy.get("type") != "allowlist":
        raise invalid("The network policy is 'disabled' or 'allowlist'.", at)
    if not allow_network:
        raise invalid("This provider gives containers no network; start it with allow_network.", at)
    if policy.get("allowed_domains") != ["*"]:
        # The sandbox has a network or none: it cannot enforce a list of domains.
        raise invalid("A list of domains cannot be enforced here; allow ['*'] or none.", at)
    return True
