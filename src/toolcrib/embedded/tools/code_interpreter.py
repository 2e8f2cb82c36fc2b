"""`code_interpreter`: Python in a container."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.containers.container import ContainerOptions, read_container_options
from toolcrib.embedded.containers.interpreter_pool import LIBRARIES, installed
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.tools.tool import ContainerFileSource, RequestContainer, ToolAnswer
from toolcrib.errors import ApiFault, SandboxFailed, SandboxUnavailable

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.containers.container import Container, ContainerFile
    from toolcrib.embedded.containers.interpreter import ExecutionResult
    from toolcrib.embedded.containers.repository import ContainerRepository
    from toolcrib.embedded.responses.request import ResponseRequest
    from toolcrib.embedded.responses.writer import ResponseWriter
    from toolcrib.embedded.tools.tool import OpenTool, RequestContext

TYPE: Final = "code_interpreter"
_PARAMETERS: Final = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "The Python code to run."}},
    "required": ["code"],
    "additionalProperties": False,
}
_ABOUT: Final = (
    "Run Python. Variables are kept between calls. Files are in the current folder, /mnt/data; "
    "save what the user should get there. {libraries}Print what you "
    "want to see. {network}."
)


def _libraries_text() -> str:
    names = " and ".join(sorted(installed(LIBRARIES), reverse=True))
    return f"{names} can be imported. " if names else ""


class CodeInterpreterKind:
    """Opens code interpreters."""

    types = frozenset({TYPE})

    def __init__(self, containers: ContainerRepository) -> None:
        self._containers = containers

    def check(self, config: Mapping[str, Any], param: str) -> None:
        """Raises `ApiFault`."""
        self._options(config.get("container"), f"{param}.container")

    async def check_resources(
        self, config: Mapping[str, Any], param: str, access: ResourceAccess
    ) -> None:
        """Raises `ApiFault` if the named container cannot be used."""
        container = config["container"]
        if isinstance(container, str):
            await self._containers.use(container, access)
            return
        await self._containers.check_network(self._options(container, f"{param}.container"))

    async def open(
        self, config: Mapping[str, Any], request: ResponseRequest, context: RequestContext
    ) -> OpenTool:
        """Open the interpreter of one request."""
        container = config["container"]
        place = RequestContainer(
            self._containers,
            container_id=container if isinstance(container, str) else None,
            options=self._options(container, "tools.container"),
            context=context,
        )
        shows = request.includes("code_interpreter_call.outputs")
        return _OpenCodeInterpreter(place, self._containers, shows_outputs=shows)

    def _options(self, container: object, param: str) -> ContainerOptions:
        if isinstance(container, str):
            return ContainerOptions()
        facts = cast(dict[str, Any], container) if isinstance(container, dict) else {}
        if facts.get("type") != "auto":
            raise invalid("Give the id of a container, or {'type': 'auto'}.", param)
        return read_container_options(facts, param, allow_network=self._containers.allow_network)


class _OpenCodeInterpreter:
    def __init__(
        self,
        place: RequestContainer,
        containers: ContainerRepository,
        *,
        shows_outputs: bool,
    ) -> None:
        self._place = place
        self._containers = containers
        self._shows_outputs = shows_outputs

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """One: `python`."""
        network = self._place.options.network_text
        about = _ABOUT.format(network=network, libraries=_libraries_text())
        return [BackendTool("python", about, _PARAMETERS, makes_files=True)]

    async def close(self) -> None:
        """The container stays for the next response."""

    async def run(
        self, name: str, arguments: Mapping[str, Any], writer: ResponseWriter
    ) -> ToolAnswer:
        """Run code in the container."""
        code = arguments.get("code")
        code = code if isinstance(code, str) else json.dumps(dict(arguments))
        container = await self._place.container()
        index = _begin(writer, container.id, code)
        item_id: str = writer.response["output"][index]["id"]
        try:
            executed, files, images = await self._execute(container, code)
        except (SandboxUnavailable, SandboxFailed) as error:
            writer.finish_item(index, status="failed")
            return ToolAnswer(item_id, f"The code was not run: {error}")
        is_anew = executed.is_first and self._place.has_used(container)
        self._place.note(container)
        writer.emit("code_interpreter_call.completed", index)
        outputs = _outputs(executed, images) if self._shows_outputs else None
        writer.finish_item(index, status="completed", outputs=outputs)
        return ToolAnswer(
            item_id,
            _told(executed, files, self._place.take_loss(), is_anew=is_anew),
            _value(executed, files, container),
            [
                ContainerFileSource(container.id, file.id, file.filename, file.path)
                for file in files
            ],
        )

    async def _execute(
        self, container: Container, code: str
    ) -> tuple[ExecutionResult, list[ContainerFile], list[bytes]]:
        async with self._containers.turn(container):
            interpreter = await self._containers.interpreter(container)
            executed = await interpreter.execute(code, self._containers.seconds)
            files = await self._containers.files.changed(container)
            images: list[bytes] = []
            for figure in executed.figures:
                # Code may have replaced the figure by something else.
                with suppress(OSError, ApiFault):
                    file, data = await self._containers.files.keep_figure(container, figure)
                    files.append(file)
                    images.append(data)
        return executed, files, images


def _begin(writer: ResponseWriter, container_id: str, code: str) -> int:
    index = writer.add_item(
        {
            "id": new_id("ci"),
            "type": "code_interpreter_call",
            "status": "in_progress",
            "code": "",
            "container_id": container_id,
            "outputs": [],
        }
    )
    writer.emit("code_interpreter_call.in_progress", index)
    writer.emit("code_interpreter_call_code.delta", index, delta=code)
    writer.emit("code_interpreter_call_code.done", index, code=code)
    writer.response["output"][index].update(code=code, status="interpreting")
    writer.emit("code_interpreter_call.interpreting", index)
    return index


def _outputs(executed: ExecutionResult, images: Sequence[bytes]) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if executed.logs:
        outputs.append({"type": "logs", "logs": executed.logs})
    for image in images:
        url = f"data:image/png;base64,{base64.b64encode(image).decode()}"
        outputs.append({"type": "image", "url": url})
    return outputs


def _told(
    executed: ExecutionResult,
    files: Sequence[ContainerFile],
    loss: str | None,
    *,
    is_anew: bool,
) -> str:
    parts = ["(Python was restarted: the variables of earlier calls are gone.)"] if is_anew else []
    parts += [] if loss is None else [loss]
    parts.append(executed.logs or "(no output)")
    if executed.was_cut:
        parts.append("(the output was longer and was cut)")
    if files:
        parts.append("Files: " + ", ".join(file.path for file in files))
    return "\n".join(parts)


def _value(
    executed: ExecutionResult, files: Sequence[ContainerFile], container: Container
) -> dict[str, Any]:
    """The value for scenarios; `json` is the last line of the output, if that is JSON."""
    lines = executed.logs.strip().splitlines()
    try:
        last = json.loads(lines[-1]) if lines else None
    except ValueError:
        last = None
    return {
        "logs": executed.logs,
        "json": last,
        "succeeded": executed.succeeded,
        "container_id": container.id,
        "files": [
            {"file_id": file.id, "filename": file.filename, "path": file.path} for file in files
        ],
    }
