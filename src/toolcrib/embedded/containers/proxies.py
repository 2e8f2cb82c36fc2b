"""The egress proxies of containers that may reach some domains."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.egress import EgressPolicy, Resolver
    from toolcrib.embedded.containers.container import Container
    from toolcrib.embedded.egress_proxy import EgressProxy


class ContainerProxies:
    """Starts the proxy of a container when its code first runs."""

    def __init__(self, policy: EgressPolicy, resolver: Resolver | None = None) -> None:
        self._policy = policy
        self._resolver = resolver
        self._proxies: dict[str, tuple[EgressProxy, Path]] = {}
        self._starting = asyncio.Lock()
        self._count = 0
        self._stack = ExitStack()
        self._folder: Path | None = None

    async def socket(self, container: Container) -> Path | None:
        """The socket file of a container's proxy; None when its policy lists no domains."""
        if container.domains is None:
            return None
        async with self._starting:
            known = self._proxies.get(container.id)
            if known is None:
                from toolcrib.embedded.egress_proxy import EgressProxy

                proxy = EgressProxy(container.domains, self._policy, self._resolver)
                path = self._next_path()
                await proxy.start(path)
                known = self._proxies[container.id] = proxy, path
        return known[1]

    async def drop(self, container_id: str) -> None:
        """End the proxy of a container, if one runs."""
        known = self._proxies.pop(container_id, None)
        if known is not None:
            await known[0].close()
            known[1].unlink(missing_ok=True)

    async def close(self) -> None:
        """End every proxy."""
        while self._proxies:
            await self.drop(next(iter(self._proxies)))
        self._stack.close()
        self._folder = None

    def _next_path(self) -> Path:
        """A path for a socket: short, as the kernel wants it, and in a folder of our own."""
        if self._folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="toolcrib-")
            self._folder = Path(self._stack.enter_context(temporary))
        self._count += 1
        return self._folder / str(self._count)
