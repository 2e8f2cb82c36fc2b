"""The records of containers and their files, and the options of a new container."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolcrib.embedded.containers.interpreter import WORK_AT
from toolcrib.embedded.domain_list import DomainList
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
    domains: DomainList | None = None
    """The only domains that its code may reach; with a network there is no such list."""

    def is_expired(self, now: float) -> bool:
        """Whether the container was idle for too long."""
        return now >= self.last_active_at + 60 * self.expires_minutes

    def resource(self, now: float) -> dict[str, Any]:
        """The container as the API returns it."""
        return {
            "id": self.id,
            "object": "container",
            "name": self.name,
            "status": "expired" if self.is_expired(now) else self.status,
            "created_at": self.created_at,
            "last_active_at": self.last_active_at,
            "expires_after": {"anchor": "last_active_at", "minutes": self.expires_minutes},
            "memory_limit": self.memory_limit,
            "network_policy": self.network_policy,
        }

    @property
    def network_policy(self) -> dict[str, Any]:
        """The network policy as the API returns it."""
        if self.domains is None and not self.has_network:
            return {"type": "disabled"}
        listed = ["*"] if self.domains is None else list(self.domains.domains)
        return {"type": "allowlist", "allowed_domains": listed}

    @classmethod
    def of(cls, row: sqlite3.Row) -> Container:
        """Read a row of the database."""
        facts = dict(row)
        policy = json.loads(facts.pop("network_policy"))
        # Earlier versions wrote no domains: they knew a whole network or none.
        listed = policy.get("allowed_domains", ["*"])
        is_listed = policy["type"] != "disabled" and listed != ["*"]
        return cls(
            **facts,
            has_network=policy["type"] != "disabled" and not is_listed,
            domains=DomainList(tuple(listed)) if is_listed else None,
        )


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
    domains: DomainList | None = None

    @property
    def network_text(self) -> str:
        """What a tool tells a model about the network."""
        if self.domains is not None:
            return f"There is no network but HTTP and HTTPS to: {self.domains}"
        return f"There is {'a' if self.has_network else 'no'} network"


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
    has_network, domains = _network(config.get("network_policy"), param, allow_network)
    return ContainerOptions(
        name=str(config.get("name") or "auto")[:256],
        minutes=_minutes(config.get("expires_after"), param),
        memory_limit=memory,
        file_ids=_file_ids(config.get("file_ids"), param),
        has_network=has_network,
        domains=domains,
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


def _network(config: object, param: str, allow_network: bool) -> tuple[bool, DomainList | None]:
    """Whether code has a network, or else the domains that it may reach."""
    if config is None:
        return False, None
    policy = cast(dict[str, Any], config) if isinstance(config, dict) else {}
    if policy.get("type") == "disabled":
        return False, None
    at = f"{param}.network_policy"
    if policy.get("type") != "allowlist":
        raise invalid("The network policy is 'disabled' or 'allowlist'.", at)
    if not allow_network:
        raise invalid("This provider gives containers no network; start it with allow_network.", at)
    if policy.get("domain_secrets"):
        raise invalid(
            "Domain secrets cannot be kept from the code here: what goes to a domain is encrypted "
            "before the egress proxy sees it. Leave them out.",
            f"{at}.domain_secrets",
        )
    listed = policy.get("allowed_domains")
    if listed == ["*"]:
        return True, None
    try:
        entries = cast(list[object], listed) if isinstance(listed, list) else []
        return False, DomainList.of(entries)
    except ValueError as error:
        raise invalid(f"Invalid allowed domains: {error}.", f"{at}.allowed_domains") from None
