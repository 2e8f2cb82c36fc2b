"""The container that a tool of one request works in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from toolcrib.local.faults import ApiFault

if TYPE_CHECKING:
    from toolcrib.local.containers.container import Container, ContainerTerms
    from toolcrib.local.containers.shelf import ContainerShelf


class InContainer:
    """A container that the request names, or the one that the conversation has used before, or a
    new one when something is first run.
    """

    def __init__(
        self,
        containers: ContainerShelf,
        *,
        container_id: str | None,
        terms: ContainerTerms,
        items: Sequence[Mapping[str, Any]],
    ) -> None:
        self._containers = containers
        self._container_id = container_id
        self._used = list(_used_in(items))
        self._had_code = set(
            _used_in(each for each in items if each.get("type") == "code_interpreter_call")
        )
        self.terms = terms

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
                await self._earlier() or (await self._containers.create(self.terms)).id
            )
        return await self._containers.use(self._container_id)

    async def _earlier(self) -> str | None:
        """The newest container of the conversation that is still there, and fits."""
        for container_id in reversed(self._used):
            try:
                container = await self._containers.use(container_id)
            except ApiFault:
                continue
            if container.has_network == self.terms.has_network and not self.terms.file_ids:
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
