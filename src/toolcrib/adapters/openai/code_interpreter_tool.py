"""`OpenAICodeInterpreterTool`: the code interpreter, bound to OpenAI.

Its container may be given as a dict in the words of OpenAI's API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from toolcrib.adapters.openai.container_options import wire_container
from toolcrib.errors import InvalidTool, UsageError
from toolcrib.tools.code_interpreter import (
    DESCRIPTION,
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    Container,
    DomainSecret,
    ExistingContainer,
    NetworkPolicy,
)
from toolcrib.tools.provider_tools import OutputHook, ProviderTool
from toolcrib.tools.rules import ToolRules
from toolcrib.vfs import HostMount, VfsPath

if TYPE_CHECKING:
    from toolcrib.tools.example import ToolExample


_AUTO_KEYS = frozenset({"type", "memory_limit", "file_ids", "network_policy", "host_mounts"})
_EXISTING_KEYS = frozenset({"id", "memory_limit"})
_ALLOWLIST_KEYS = frozenset({"type", "allowed_domains", "domain_secrets"})
_SECRET_KEYS = frozenset({"domain", "name", "value"})


def read_container(name: str, container: Mapping[str, Any]) -> Container:
    """The container that the dict describes; unknown keys are refused, not dropped."""
    is_existing = "id" in container
    known = _EXISTING_KEYS if is_existing else _AUTO_KEYS
    _refuse_unknown(f"tool {name!r}: the container", container, known)
    if is_existing:
        return ExistingContainer(container["id"], container.get("memory_limit"))
    if container.get("type") != "auto":
        raise InvalidTool(
            f"tool {name!r}: container must have the id of a container or type 'auto', "
            f"not type {container.get('type')!r}"
        )
    memory: Any = container.get("memory_limit")
    return AutoContainer(
        memory_limit="1g" if memory is None else memory,
        file_ids=_listed(name, "file_ids", container),
        network_policy=_read_network(name, container.get("network_policy")),
    )


def _read_network(name: str, policy: Any) -> NetworkPolicy | None:
    if policy is None or isinstance(policy, NetworkPolicy):
        return policy
    where = f"tool {name!r}: container.network_policy"
    options = _mapping(policy)
    match options:
        case {"type": "disabled"}:
            _refuse_unknown(where, options, frozenset({"type"}))
            return NetworkPolicy()
        case {"type": "allowlist", "allowed_domains": [_, *_] as domains}:
            _refuse_unknown(where, options, _ALLOWLIST_KEYS)
            listed = _listed(name, "network_policy.domain_secrets", options, key="domain_secrets")
            secrets = tuple(_read_secret(where, secret) for secret in listed)
            return NetworkPolicy(tuple(cast("list[str]", domains)), secrets)
        case _:
            # Only its keys: it may hold secrets.
            shown = f"keys {', '.join(sorted(options))}" if options else type(policy).__name__
            raise InvalidTool(
                f"{where} must be of type 'disabled', or of type 'allowlist' with "
                f"allowed_domains, not {shown}"
            )


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _read_secret(where: str, secret: Any) -> DomainSecret:
    if isinstance(secret, DomainSecret):
        return secret
    options = _mapping(secret)
    if frozenset(options) != _SECRET_KEYS:
        raise InvalidTool(
            f"{where}: each of domain_secrets must have exactly {', '.join(sorted(_SECRET_KEYS))}"
        )
    return DomainSecret(**options)


def read_mounts(name: str, container: Mapping[str, Any]) -> tuple[HostMount, ...]:
    """The files of the host that the dict names. OpenAI knows no such key: they are uploaded."""
    return check_mounts(name, map(_read_mount, _listed(name, "host_mounts", container)))


def check_mounts(name: str, mounts: Iterable[Any]) -> tuple[HostMount, ...]:
    """The mounts as a tuple; what is no mount is refused when the tool is declared."""
    checked = tuple(mounts)
    for mount in checked:
        if not isinstance(mount, HostMount):
            raise InvalidTool(f"tool {name!r}: {mount!r} in host_mounts is not a HostMount")
    return checked


def _read_mount(mount: Any) -> Any:
    """A mount from a dict; whatever else it is, it stays."""
    if not isinstance(mount, Mapping):
        return mount
    options = cast("Mapping[str, Any]", mount)
    _refuse_unknown(
        f"the mount of {options.get('host_path')!r}", options, frozenset(HostMount.__slots__)
    )
    fields = {key: _as_tuple(value) for key, value in options.items()}
    path = fields.pop("mount_path", None)
    return HostMount(
        host_path=fields.pop("host_path", None),
        mount_path=VfsPath.parse(path) if isinstance(path, str) else path,
        **fields,
    )


def _as_tuple(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _listed(
    name: str, path: str, options: Mapping[str, Any], *, key: str | None = None
) -> tuple[Any, ...]:
    """The members of a list; a lone text would be read letter by letter."""
    value: Any = options.get(key or path)
    match value:
        case None:
            return ()
        case list() | tuple():
            return tuple(cast("list[Any]", value))
        case _:
            kind = type(value).__name__
            raise InvalidTool(f"tool {name!r}: container.{path} must be a list, not {kind}")


def _refuse_unknown(owner: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(options.keys() - known)
    if unknown:
        raise InvalidTool(
            f"{owner} has unknown keys {', '.join(unknown)}; known are "
            f"{', '.join(sorted(known))}. For a field that is newer, use the tool's extra="
        )


PROVIDER: Final = "openai"


class _Fields(ToolRules, total=False):
    """What `dataclasses.replace` passes on besides the rules; none of it can be chosen."""

    handler: None
    params_type: None
    result_type: type[CodeInterpreterResult] | None
    calling: Any
    json_schema: None
    provider: str
    extra: Mapping[str, Any]


@dataclass(frozen=True, slots=True, init=False)
class OpenAICodeInterpreterTool(ProviderTool[None, CodeInterpreterResult, CodeInterpreterConfig]):
    """Python in an OpenAI container. It takes no arguments: the model writes the code.

    `container` is an `AutoContainer`, an `ExistingContainer`, or a dict in the words of OpenAI's
    API. `host_mounts` are files of the host that the adapter uploads before the first request.
    """

    host_mounts: tuple[HostMount, ...] = field(default=())

    def __init__(
        self,
        *,
        name: str = "code_interpreter",
        description: str = DESCRIPTION,
        container: Container | Mapping[str, Any] | None = None,
        config: CodeInterpreterConfig | None = None,
        host_mounts: tuple[HostMount, ...] = (),
        handle_provider_output: OutputHook[CodeInterpreterResult] | None = None,
        examples: tuple[ToolExample[None, CodeInterpreterResult], ...] = (),
        **fields: Unpack[_Fields],
    ) -> None:
        if container is not None and config is not None:
            raise InvalidTool(f"tool {name!r}: pass container= or config=, not both")
        if fields.get("provider", PROVIDER) != PROVIDER or fields.get("handler") is not None:
            raise InvalidTool(
                f"tool {name!r}: OpenAI runs this tool, so it takes no handler and no other "
                "provider; declare a ProviderTool of your own for that"
            )
        host_mounts = check_mounts(name, host_mounts)
        if isinstance(container, Mapping):
            host_mounts += read_mounts(name, container)
            container = read_container(name, container)
        chosen = config or CodeInterpreterConfig(container or AutoContainer())
        object.__setattr__(self, "host_mounts", host_mounts)
        others = cast("dict[str, Any]", {"result_type": CodeInterpreterResult, **fields})
        super(OpenAICodeInterpreterTool, self).__init__(
            name=name,
            description=description,
            provider=others.pop("provider", PROVIDER),
            config=chosen,
            handle_provider_output=handle_provider_output,
            examples=examples,
            **others,
        )

    @property
    def container(self) -> str | dict[str, Any]:
        """Where the code runs, in the words of OpenAI's API, for a call of its SDK without an
        adapter. The typed form is `config.container`.
        """
        return wire_container(self.config.container)

    def check_declarable(self) -> None:
        """Refuse mounts that the adapter has not staged: their files would never arrive."""
        if self.host_mounts:
            raise UsageError(
                f"tool {self.name!r} has host_mounts, and no folder of the host is allowed; give "
                "the adapter host_roots, or upload the files and give the tool their file_ids"
            )
