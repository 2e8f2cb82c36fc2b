"""`/v1/containers` and their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from toolcrib.embedded.containers.container import read_container_options
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.http.bodies import (
    access_of,
    answered,
    attachment,
    listed_owner,
    page,
    read_form,
    read_object,
    read_upload,
)

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.containers.container import Container, ContainerFile
    from toolcrib.embedded.provider import EmbeddedProvider


class ContainerRoutes:
    """The routes of containers."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        self._provider = provider

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes below `/v1`."""
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
        body = await read_object(request)
        if not isinstance(body.get("name"), str):
            raise invalid("Missing required parameter: 'name'.", "name")
        containers = self._provider.containers
        options = read_container_options(body, "container", allow_network=containers.allow_network)
        container = await containers.create(options, access_of(request))
        return JSONResponse(await containers.resource(container))

    async def _list(self, request: Request) -> Response:
        name, containers = request.query_params.get("name"), self._provider.containers
        matches = [
            container
            for container in await containers.list(listed_owner(request))
            if name in (None, container.name)
        ]
        return page(request, [await containers.resource(container) for container in matches])

    async def _retrieve(self, request: Request) -> Response:
        container = await self._container(request)
        return JSONResponse(await self._provider.containers.resource(container))

    async def _delete(self, request: Request) -> Response:
        container = await self._container(request)
        await self._provider.containers.delete(container)
        answer = {"id": container.id, "object": "container.deleted", "deleted": True}
        return JSONResponse(answer)

    async def _add_file(self, request: Request) -> Response:
        access = access_of(request)
        container_id = request.path_params["container_id"]
        container = await self._provider.containers.use(container_id, access)
        if request.headers.get("content-type", "").startswith("application/json"):
            name, data = await self._uploaded((await read_object(request)).get("file_id"), access)
        else:
            async with read_form(request) as form:
                if "file" in form:
                    name, data = await read_upload(form)
                else:
                    name, data = await self._uploaded(form.get("file_id"), access)
        return JSONResponse(
            (await self._provider.containers.files.put(container, name, data)).resource
        )

    async def _uploaded(self, file_id: object, access: ResourceAccess) -> tuple[str, bytes]:
        if not isinstance(file_id, str):
            raise invalid("Give a file, or the id of one as 'file_id'.", "file_id")
        stored = await self._provider.files.get(file_id, access, "file_id")
        return f"{stored.id}-{stored.filename}", await self._provider.files.read(stored.id)

    async def _list_files(self, request: Request) -> Response:
        files = await self._provider.containers.files.list(await self._container(request))
        return page(request, [file.resource for file in files])

    async def _retrieve_file(self, request: Request) -> Response:
        _, file = await self._file(request)
        return JSONResponse(file.resource)

    async def _delete_file(self, request: Request) -> Response:
        container, file = await self._file(request)
        await self._provider.containers.files.remove(container, file)
        answer = {"id": file.id, "object": "container.file.deleted", "deleted": True}
        return JSONResponse(answer)

    async def _content(self, request: Request) -> Response:
        container, file = await self._file(request)
        data = await self._provider.containers.files.read(container, file)
        return attachment(file.filename, len(data), data)

    async def _file(self, request: Request) -> tuple[Container, ContainerFile]:
        container = await self._container(request)
        file_id = request.path_params["file_id"]
        return container, await self._provider.containers.files.get(container, file_id)

    async def _container(self, request: Request) -> Container:
        container_id = request.path_params["container_id"]
        return await self._provider.containers.get(container_id, access_of(request))
