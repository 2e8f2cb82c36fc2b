"""`/v1/containers` and their files."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from toolcrib.local.containers.container import read_terms
from toolcrib.local.faults import invalid
from toolcrib.local.http.answering import answered, page, read_json
from toolcrib.local.http.files import attachment, read_upload

if TYPE_CHECKING:
    from toolcrib.local.provider import LocalProvider


class ContainerRoutes:
    """Answers what is asked of containers."""

    def __init__(self, provider: LocalProvider) -> None:
        self._provider = provider

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, below `/v1`."""
        one = "/containers/{container_id}"
        file = f"{one}/files/{{file_id}}"
        return [
            Route("/containers", answered(self._create), methods=["POST"]),
            Route("/containers", answered(self._list), methods=["GET"]),
            Route(one, answered(self._retrieve), methods=["GET"]),
            Route(one, answered(self._delete), methods=["DELETE"]),
            Route(f"{one}/files", answered(self._add_file), methods=["POST"]),
            Route(f"{one}/files", answered(self._list_files), methods=["GET"]),
            Route(file, answered(self._retrieve_file), methods=["GET"]),
            Route(file, answered(self._delete_file), methods=["DELETE"]),
            Route(f"{file}/content", answered(self._content), methods=["GET"]),
        ]

    async def _create(self, request: Request) -> Response:
        body = await read_json(request)
        if not isinstance(body, dict) or not isinstance(body.get("name"), str):  # pyright: ignore
            raise invalid("Missing required parameter: 'name'.", "name")
        containers = self._provider.containers
        terms = read_terms(body, "container", allow_network=containers.allow_network)  # pyright: ignore
        return JSONResponse((await containers.create(terms)).told(time.time()))

    async def _list(self, request: Request) -> Response:
        name = request.query_params.get("name")
        found = await self._provider.containers.list()
        told = [each.told(time.time()) for each in found if name in (None, each.name)]
        return page(request, told)

    async def _retrieve(self, request: Request) -> Response:
        return JSONResponse((await self._container(request)).told(time.time()))

    async def _delete(self, request: Request) -> Response:
        container = await self._container(request)
        await self._provider.containers.delete(container.id)
        told = {"id": container.id, "object": "container.deleted", "deleted": True}
        return JSONResponse(told)

    async def _add_file(self, request: Request) -> Response:
        container = await self._provider.containers.use(request.path_params["container_id"])
        if request.headers.get("content-type", "").startswith("application/json"):
            body: Any = await read_json(request)
            stored = await self._provider.files.get(str(body.get("file_id")), "file_id")
            data = await self._provider.files.read(stored.id)
            name = f"{stored.id}-{stored.filename}"
        else:
            async with request.form(max_files=1) as form:
                if "file" in form:
                    name, data = await read_upload(form)
                else:
                    stored = await self._provider.files.get(str(form.get("file_id")), "file_id")
                    data = await self._provider.files.read(stored.id)
                    name = f"{stored.id}-{stored.filename}"
        return JSONResponse((await self._provider.containers.put(container, name, data)).told)

    async def _list_files(self, request: Request) -> Response:
        found = await self._provider.containers.files(await self._container(request))
        return page(request, [each.told for each in found])

    async def _retrieve_file(self, request: Request) -> Response:
        container = await self._container(request)
        file_id = request.path_params["file_id"]
        return JSONResponse((await self._provider.containers.file(container, file_id)).told)

    async def _delete_file(self, request: Request) -> Response:
        container = await self._container(request)
        file = await self._provider.containers.file(container, request.path_params["file_id"])
        await self._provider.containers.remove(container, file)
        told = {"id": file.id, "object": "container.file.deleted", "deleted": True}
        return JSONResponse(told)

    async def _content(self, request: Request) -> Response:
        container = await self._container(request)
        file = await self._provider.containers.file(container, request.path_params["file_id"])
        return attachment(file.filename, await self._provider.containers.read(container, file))

    async def _container(self, request: Request) -> Any:
        return await self._provider.containers.get(request.path_params["container_id"])
