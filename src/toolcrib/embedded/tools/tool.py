"""The protocol of hosted tools, their answers and sources, and the container of a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.backend import BackendTool
    from toolcrib.embedded.containers.container import Container, ContainerOptions
    from toolcrib.embedded.containers.repository import ContainerRepository
    from toolcrib.embedded.responses.request import ResponseRequest
    from toolcrib.embedded.responses.writer import ResponseWriter


@dataclass(frozen=True, slots=True)
class PageSource:
    """A page that can be cited."""

    url: str
    title: str
    type: Literal["web"] = "web"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file of a vector store that can be cited."""

    file_id: str
    filename: str
    type: Literal["file"] = "file"


@dataclass(frozen=True, slots=True)
class ContainerFileSource:
    """A file that a tool wrote in a container. It is cited by its path, `/mnt/data/…`."""

    container_id: str
    file_id: str
    filename: str
    path: str
    type: Literal["container_file"] = "container_file"


CitationSource: TypeAlias = PageSource | FileSource | ContainerFileSource


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer of a hosted call.

    The provider appends the list of sources with their marks to the text. `item_id` is the output
    item of the call.
    """

    item_id: str
    text: str
    value: Any = None
    sources: Sequence[CitationSource] = ()


@dataclass(frozen=True, slots=True)
class ToolPause:
    """The call waits for the client, which an item of the response asks."""


@dataclass(frozen=True, slots=True)
class ResumedCall:
    """A call that waited for the client, with its answer."""

    name: str
    arguments: str
    answer: ToolAnswer


class OpenTool(Protocol):
    """A hosted tool that is open for one request. It writes its own items to the response."""

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """The declarations that the backend sees."""
        ...

    async def run(
        self, name: str, arguments: Mapping[str, Any], writer: ResponseWriter
    ) -> ToolAnswer | ToolPause:
        """Run a proposed call. A failure of the tool is an answer that describes it."""
        ...

    async def close(self) -> None:
        """Release resources at the end of the response."""
        ...


@runtime_checkable
class ResumableTool(Protocol):
    """A tool whose calls may wait for the client between two responses."""

    async def resume(self, writer: ResponseWriter) -> Sequence[ResumedCall]:
        """Run the calls that the client approved, before the backend continues."""
        ...


@runtime_checkable
class ResourceCheck(Protocol):
    """A kind whose tools need a resource, such as a container."""

    async def check_resources(
        self, config: Mapping[str, Any], param: str, access: ResourceAccess
    ) -> None:
        """Raises `ApiFault` if the resource is missing, before a response starts. One that the
        principal of the request may not see is missing.
        """
        ...


class HostedKind(Protocol):
    """A kind of hosted tool, such as `web_search`."""

    @property
    def types(self) -> frozenset[str]:
        """The tool types of the API that this kind implements."""
        ...

    def check(self, config: Mapping[str, Any], param: str) -> None:
        """Raises `ApiFault` for an invalid configuration, before a response starts."""
        ...

    async def open(
        self, config: Mapping[str, Any], request: ResponseRequest, context: RequestContext
    ) -> OpenTool:
        """Open the tool for one request. Raises `ApiFault`."""
        ...


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The writer of the response, what its principal may reach, and the items of the conversation
    so far. A client may send any items: what they name is checked like what the request names.
    """

    writer: ResponseWriter
    access: ResourceAccess
    items: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


class RequestContainer:
    """The container of one request: named in the request, used earlier in the conversation, or
    created at the first call.
    """

    def __init__(
        self,
        containers: ContainerRepository,
        *,
        container_id: str | None,
        options: ContainerOptions,
        context: RequestContext,
    ) -> None:
        items = context.items
        self._containers = containers
        self._access = context.access
        self._container_id = container_id
        self._used = list(_used_in(items))
        self._had_code = set(
            _used_in(item for item in items if item.get("type") == "code_interpreter_call")
        )
        self._lost: list[str] = []
        """What earlier containers of the conversation cannot be used for, in place of which a new
        one was created; until the model knows."""
        self.options = options

    def has_used(self, container: Container) -> bool:
        """Whether the conversation has run Python in this container."""
        return container.id in self._had_code

    def note(self, container: Container) -> None:
        """Record that Python ran in this container."""
        self._had_code.add(container.id)

    def take_loss(self) -> str | None:
        """What the model must know before the output of a new container, said once."""
        if not self._lost:
            return None
        reason = self._lost[0]
        self._lost.clear()
        return f"(This is a new container without the files and variables of before: {reason})"

    async def container(self) -> Container:
        """The container for the next call. Raises `ApiFault`."""
        if self._container_id is None:
            self._container_id = await self._earlier()
        if self._container_id is None:
            self._container_id = await self._created()
        else:
            self._lost.clear()
        return await self._containers.use(self._container_id, self._access)

    async def _created(self) -> str:
        return (await self._containers.create(self.options, self._access)).id

    async def _earlier(self) -> str | None:
        """The newest container of the conversation that still exists and fits the options."""
        for container_id in reversed(self._used):
            try:
                container = await self._containers.use(container_id, self._access)
            except ApiFault as fault:
                self._lost.append(str(fault))
                continue
            if await self._fits(container):
                return container.id
        return None

    async def _fits(self, container: Container) -> bool:
        options = self.options
        is_alike = (container.has_network, container.domains, container.memory_limit) == (
            options.has_network,
            options.domains,
            options.memory_limit,
        )
        return is_alike and await self._has_files(container)

    async def _has_files(self, container: Container) -> bool:
        """Whether the files that a new container would be created with are in this one."""
        if not self.options.file_ids:
            return True
        names = [file.name for file in await self._containers.files.list(container)]
        return all(
            any(name.startswith(f"{file_id}-") for name in names)
            for file_id in self.options.file_ids
        )


def _used_in(items: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for item in items:
        container_id = item.get("container_id")
        environment = item.get("environment")
        if isinstance(environment, Mapping):
            container_id = cast(Mapping[str, object], environment).get("container_id")
        if isinstance(container_id, str):
            yield container_id
