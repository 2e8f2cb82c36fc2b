"""What a hosted tool is to the provider.

The container that a tool of one request works in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

from toolcrib.errors import ApiFault

if TYPE_CHECKING:
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
    """A file that a tool left in a container. It is cited by its path, `/mnt/data/…`."""

    container_id: str
    file_id: str
    filename: str
    path: str
    type: Literal["container_file"] = "container_file"


CitationSource: TypeAlias = PageSource | FileSource | ContainerFileSource


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answered: text for the backend, to which the provider adds a list of the sources
    with the marks to cite them by. `item_id` is the item that tells of it.
    """

    item_id: str
    text: str
    value: Any = None
    sources: Sequence[CitationSource] = ()


@dataclass(frozen=True, slots=True)
class ToolPause:
    """The tool cannot go on before the client answers, for which an item was added."""


@dataclass(frozen=True, slots=True)
class ResumedCall:
    """A call that waited for the client, and what it came to now."""

    name: str
    arguments: str
    answer: ToolAnswer


class OpenTool(Protocol):
    """A tool of one request. It adds its own items to the run, with their events."""

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """How a backend can call it."""
        ...

    async def run(
        self, name: str, arguments: Mapping[str, Any], writer: ResponseWriter
    ) -> ToolAnswer | ToolPause:
        """Do what a backend proposed. A failure of the tool is an answer that tells of it."""
        ...

    async def close(self) -> None:
        """The response is over."""
        ...


@runtime_checkable
class ResumableTool(Protocol):
    """A tool whose calls may wait for the client between two responses."""

    async def resume(self, writer: ResponseWriter) -> Sequence[ResumedCall]:
        """Do what the client has let through since; before the backend is asked again."""
        ...


@runtime_checkable
class ResourceCheck(Protocol):
    """A kind whose tools need something that may be gone, such as a container."""

    async def check_resources(self, config: Mapping[str, Any], param: str) -> None:
        """Raises `ApiFault` when it is not there, before a response is begun."""
        ...


class HostedKind(Protocol):
    """Makes the tools of one kind, such as `web_search`."""

    @property
    def types(self) -> frozenset[str]:
        """The types that a request asks for it by."""
        ...

    def check(self, config: Mapping[str, Any], param: str) -> None:
        """Raises `ApiFault` for a configuration that is wrong, before anything is made."""
        ...

    async def open(
        self, config: Mapping[str, Any], request: ResponseRequest, context: RequestContext
    ) -> OpenTool:
        """The tool for one request. Raises `ApiFault`."""
        ...


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What a tool may need of the request: the run to tell in, and the items so far."""

    writer: ResponseWriter
    items: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


class RequestContainer:
    """A container that the request names, or the one that the conversation has used before, or a
    new one when something is first run.
    """

    def __init__(
        self,
        containers: ContainerRepository,
        *,
        container_id: str | None,
        options: ContainerOptions,
        items: Sequence[Mapping[str, Any]],
    ) -> None:
        self._containers = containers
        self._container_id = container_id
        self._used = list(_used_in(items))
        self._had_code = set(
            _used_in(each for each in items if each.get("type") == "code_interpreter_call")
        )
        self.options = options

    def has_used(self, container: Container) -> bool:
        """Whether the conversation has run Python in it before."""
        return container.id in self._had_code

    def note(self, container: Container) -> None:
        """Python was run in it."""
        self._had_code.add(container.id)

    async def container(self) -> Container:
        """The container to work in now. Raises `ApiFault`."""
        if self._container_id is None:
            self._container_id = (
                await self._earlier() or (await self._containers.create(self.options)).id
            )
        return await self._containers.use(self._container_id)

    async def _earlier(self) -> str | None:
        """The newest container of the conversation that is still there, and fits."""
        for container_id in reversed(self._used):
            try:
                container = await self._containers.use(container_id)
            except ApiFault:
                continue
            if container.has_network == self.options.has_network and not self.options.file_ids:
                return container.id
        return None


def _used_in(items: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for item in items:
        container_id = item.get("container_id")
        environment = item.get("environment")
        if isinstance(environment, Mapping):
            container_id = cast(Mapping[str, object], environment).get("container_id")
        if isinstance(container_id, str):
            yield container_id
