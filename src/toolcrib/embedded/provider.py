"""The embedded provider, assembled from its repositories, tool kinds and backends."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from toolcrib.clock import SYSTEM_CLOCK
from toolcrib.egress import EgressPolicy
from toolcrib.embedded.backend_names import BackendNames
from toolcrib.embedded.containers.repository import ContainerRepository
from toolcrib.embedded.database import Database, claim_folder
from toolcrib.embedded.file_repository import FileRepository
from toolcrib.embedded.responses.content import ContentReader
from toolcrib.embedded.responses.repository import ResponseRepository
from toolcrib.embedded.responses.service import ResponseService
from toolcrib.embedded.responses.tools import HostedKinds
from toolcrib.embedded.search.index import TextIndex
from toolcrib.embedded.search.reader import DocumentReader
from toolcrib.embedded.tools.code_interpreter import CodeInterpreterKind
from toolcrib.embedded.tools.file_search import FileSearchKind
from toolcrib.embedded.tools.image_generation import ImageGenerationKind
from toolcrib.embedded.tools.mcp import McpKind
from toolcrib.embedded.tools.shell import ShellKind
from toolcrib.embedded.tools.web_search import WebSearchKind
from toolcrib.embedded.vector_stores.repository import VectorStoreRepository
from toolcrib.embedded.web.folder import WebFolder
from toolcrib.errors import UsageError
from toolcrib.portal import Portal

if TYPE_CHECKING:
    import os

    from toolcrib.clock import Clock
    from toolcrib.embedded.adapter import EmbeddedAdapter
    from toolcrib.embedded.backend import ModelBackend
    from toolcrib.embedded.file_repository import SharedFiles
    from toolcrib.embedded.images.backend import ImageBackend
    from toolcrib.embedded.search.embedder import Embedder
    from toolcrib.embedded.tools.tool import HostedKind
    from toolcrib.embedded.web.source import WebSearchSource


class EmbeddedProvider:
    """A Responses API that answers with its model backends and runs hosted tools itself.

    As an async context manager it runs on the current event loop, as a plain one on a thread of
    its own. State is stored in the folder `data`, or in a temporary folder that is deleted on
    close. Uploaded files go to `shared_files`, if given, where every replica reads them; containers
    and vector stores stay at one provider, which their ids name. `kinds` adds hosted tools, `web`
    lists the sources of web search, `images` makes images, and `embedder` adds vector search.
    Containers get a network only with `allow_network`, and code runs without a sandbox only with
    `allow_unconfined`. What a request chooses to connect to must be a public address or in
    `allow_egress`: hosts, `host:port` or networks. `aliases` are other names of models; with
    `any_model` the first backend answers for every name.
    """

    def __init__(
        self,
        backends: ModelBackend | Sequence[ModelBackend],
        *,
        data: str | os.PathLike[str] | None = None,
        shared_files: SharedFiles | None = None,
        kinds: Sequence[HostedKind] = (),
        web: Sequence[WebSearchSource] = (),
        images: ImageBackend | None = None,
        embedder: Embedder | None = None,
        allow_network: bool = False,
        allow_unconfined: bool = False,
        allow_egress: Iterable[str] = (),
        aliases: Mapping[str, str] | None = None,
        any_model: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        listed = list(backends) if isinstance(backends, Sequence) else [backends]
        self._names = BackendNames(listed, aliases, any_model=any_model)
        self._data = data
        self._shared_files = shared_files
        self._kinds = kinds
        self._web = web
        self._images = images
        self._embedder = embedder
        self._allow_network = allow_network
        self._allow_unconfined = allow_unconfined
        self._egress = EgressPolicy.of(allow_egress)
        self._clock = clock
        self._started_at = int(clock())
        self._stack = AsyncExitStack()
        self._responses: ResponseService | None = None
        self._portal: Portal | None = None

    def __enter__(self) -> Self:
        portal = Portal(name="toolcrib-provider")
        try:
            portal.run_from_thread(self._start(portal))
        except BaseException:
            portal.close(for_good=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        portal = self._started_portal()
        portal.run_from_thread(self.aclose())
        portal.close(for_good=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Open the state and end the responses that a crash interrupted.

        Raises `UsageError` if another provider uses the folder.
        """
        await self._start(Portal(loop=asyncio.get_running_loop()))

    async def _start(self, portal: Portal) -> None:
        if self._portal is not None:
            raise UsageError("the provider was started before; create another one")
        self._portal = portal
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _open(self) -> None:
        folder = self._data
        if folder is None:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="toolcrib-"))
        self._stack.callback(claim_folder(Path(folder)).close)
        database = Database(Path(folder) / "provider.sqlite3")
        self._stack.callback(database.close)
        for backend in self._names.backends:
            self._stack.push_async_callback(backend.aclose)
        self.files = FileRepository(
            database, Path(folder) / "files", self._clock, self._shared_files
        )
        self.containers = ContainerRepository(
            database,
            Path(folder) / "containers",
            self.files,
            self._clock,
            allow_network=self._allow_network,
            allow_unconfined=self._allow_unconfined,
        )
        self._stack.push_async_callback(self.containers.close)
        await self.containers.sweep()
        index, reader = TextIndex(database, self._embedder), DocumentReader()
        self.vector_stores = VectorStoreRepository(database, index, self.files, reader, self._clock)
        self._stack.push_async_callback(self.vector_stores.close)
        await self.vector_stores.recover()
        for place in self._web:
            if isinstance(place, WebFolder):
                place.use(database, self._embedder, reader)
        kinds = HostedKinds(
            [
                CodeInterpreterKind(self.containers),
                ShellKind(self.containers),
                FileSearchKind(self.vector_stores),
                WebSearchKind(self._web),
                McpKind(self._egress),
                ImageGenerationKind(self._images),
                *self._kinds,
            ]
        )
        content = ContentReader(self.files, reader, self._egress)
        responses = ResponseService(
            self._names, kinds, ResponseRepository(database), self._clock, content
        )
        self._stack.push_async_callback(responses.close)
        await responses.recover()
        self._responses = responses

    async def aclose(self) -> None:
        """Cancel the active responses and release all resources."""
        await self._stack.aclose()

    @property
    def responses(self) -> ResponseService:
        """The Responses API without HTTP."""
        if self._responses is None:
            raise UsageError("the provider is not started; use `with` or `async with`")
        return self._responses

    @property
    def models(self) -> list[dict[str, Any]]:
        """The models of the backends and their aliases, as `/v1/models` lists them."""
        return self._names.resources(self._started_at)

    @cached_property
    def app(self) -> Any:
        """The provider as an ASGI application, without authentication: every request is the
        owner's.
        """
        from toolcrib.embedded.http.app import create_provider_app

        return create_provider_app(self)

    def client(self) -> Any:
        """An `openai.AsyncOpenAI` that calls this provider in the process, without a port.

        It works on any event loop while the provider's own loop runs.
        """
        from toolcrib.embedded.client import in_process_client

        return in_process_client(self.app, self._started_portal())

    def sync_client(self) -> Any:
        """An `openai.OpenAI` for blocking code. The provider must run on another thread."""
        from toolcrib.embedded.client import in_process_sync_client

        return in_process_sync_client(self.app, self._started_portal())

    def adapter(self, model: str | None = None, **options: Any) -> EmbeddedAdapter:
        """An adapter for one of the models; the only one need not be named. A provider that was
        not started is started by the adapter's first request and ends with the adapter. `options`
        are those of `OpenAIAdapter`.
        """
        from toolcrib.embedded.adapter import EmbeddedAdapter

        return EmbeddedAdapter(self, model=model, **options)

    @property
    def is_started(self) -> bool:
        """Whether the provider was started."""
        return self._responses is not None

    @property
    def portal(self) -> Portal:
        """The way to the provider's event loop."""
        return self._started_portal()

    def _started_portal(self) -> Portal:
        if self._portal is None:
            raise UsageError("the provider is not started; use `with` or `async with`")
        return self._portal
