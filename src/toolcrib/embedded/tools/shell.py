"""`shell`: commands in a container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.containers.container import ContainerOptions, read_container_options
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.tools.tool import ContainerFileSource, RequestContainer, ToolAnswer
from toolcrib.errors import SandboxFailed, SandboxUnavailable

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.containers.container import Container
    from toolcrib.embedded.containers.repository import ContainerRepository
    from toolcrib.embedded.responses.request import ResponseRequest
    from toolcrib.embedded.responses.writer import ResponseWriter
    from toolcrib.embedded.tools.tool import OpenTool, RequestContext
    from toolcrib.sandbox.command import CommandResult

TYPE: Final = "shell"
MAX_COMMANDS: Final = 16
MAX_OUTPUT: Final = 100_000
_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        "commands": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MAX_COMMANDS,
            "description": "Commands, each for a shell of its own, run one after the other.",
        },
        "timeout_ms": {"type": "integer", "minimum": 1},
        "max_output_length": {"type": "integer", "minimum": 1},
    },
    "required": ["commands"],
    "additionalProperties": False,
}
_ABOUT: Final = "Run shell commands. Files are in the current folder, /mnt/data. {network}."


class ShellKind:
    """Opens shells."""

    types = frozenset({TYPE})

    def __init__(self, containers: ContainerRepository) -> None:
        self._containers = containers

    def check(self, config: Mapping[str, Any], param: str) -> None:
        """Raises `ApiFault`."""
        self._place(config, f"{param}.environment")

    async def check_resources(
        self, config: Mapping[str, Any], param: str, access: ResourceAccess
    ) -> None:
        """Raises `ApiFault` if the named container cannot be used."""
        container_id, options = self._place(config, f"{param}.environment")
        await self._containers.check_network(options)
        if container_id is not None:
            await self._containers.use(container_id, access)

    async def open(
        self, config: Mapping[str, Any], request: ResponseRequest, context: RequestContext
    ) -> OpenTool:
        """Open the shell of one request."""
        container_id, options = self._place(config, "tools.environment")
        place = RequestContainer(
            self._containers, container_id=container_id, options=options, context=context
        )
        return _OpenShell(place, self._containers)

    def _place(self, config: Mapping[str, Any], param: str) -> tuple[str | None, ContainerOptions]:
        environment = config.get("environment")
        facts = cast(dict[str, Any], environment) if isinstance(environment, dict) else {}
        match facts.get("type"):
            case "container_reference" if isinstance(facts.get("container_id"), str):
                return facts["container_id"], ContainerOptions()
            case "container_auto":
                allow = self._containers.allow_network
                return None, read_container_options(facts, param, allow_network=allow)
            case _:
                raise invalid(
                    "The environment must be container_auto or container_reference: this provider "
                    "runs shells in containers only.",
                    param,
                )


class _OpenShell:
    def __init__(self, place: RequestContainer, containers: ContainerRepository) -> None:
        self._place = place
        self._containers = containers

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """One: `shell`."""
        about = _ABOUT.format(network=self._place.options.network_text)
        return [BackendTool(TYPE, about, _PARAMETERS, makes_files=True)]

    async def close(self) -> None:
        """The container stays for the next response."""

    async def run(
        self, name: str, arguments: Mapping[str, Any], writer: ResponseWriter
    ) -> ToolAnswer:
        """Run commands in the container."""
        container = await self._place.container()
        action = _action(arguments)
        call_id = new_id("call")
        index = _begin(writer, call_id, action, container)
        item_id: str = writer.response["output"][index]["id"]
        try:
            async with self._containers.turn(container):
                ended = [
                    await self._command(container, command, action)
                    for command in action["commands"]
                ]
                files = await self._containers.files.changed(container)
        except (SandboxUnavailable, SandboxFailed) as error:
            writer.finish_item(index, status="incomplete")
            return ToolAnswer(item_id, f"Nothing was run: {error}")
        writer.finish_item(index, status="completed")
        outputs = [_output(run, action["max_output_length"] or MAX_OUTPUT) for run in ended]
        _finish(writer, call_id, action, outputs)
        return ToolAnswer(
            item_id,
            _told(outputs, self._place.take_loss()),
            {"outputs": outputs, "container_id": container.id},
            [
                ContainerFileSource(container.id, file.id, file.filename, file.path)
                for file in files
            ],
        )

    async def _command(
        self, container: Container, text: str, action: Mapping[str, Any]
    ) -> CommandResult:
        most = self._containers.seconds
        seconds = min(most, action["timeout_ms"] / 1000) if action["timeout_ms"] else most
        return await self._containers.run(container, text, seconds)


def _action(arguments: Mapping[str, Any]) -> dict[str, Any]:
    commands = arguments.get("commands")
    if isinstance(commands, str):
        commands = [commands]
    listed = cast(list[object], commands) if isinstance(commands, list) else []
    return {
        "commands": [str(command) for command in listed][:MAX_COMMANDS],
        "timeout_ms": _whole(arguments.get("timeout_ms")),
        "max_output_length": _whole(arguments.get("max_output_length")),
    }


def _whole(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


def _begin(
    writer: ResponseWriter, call_id: str, action: dict[str, Any], container: Container
) -> int:
    index = writer.add_item(
        {
            "id": new_id("sh"),
            "type": "shell_call",
            "status": "in_progress",
            "call_id": call_id,
            "action": {**action, "commands": []},
            "environment": {"type": "container_reference", "container_id": container.id},
        }
    )
    for at, command in enumerate(action["commands"]):
        writer.emit("shell_call_command.added", index, command_index=at, command="")
        writer.emit("shell_call_command.delta", index, command_index=at, delta=command)
        writer.emit("shell_call_command.done", index, command_index=at, command=command)
    writer.response["output"][index]["action"] = action
    return index


def _finish(
    writer: ResponseWriter, call_id: str, action: Mapping[str, Any], outputs: list[dict[str, Any]]
) -> None:
    base: dict[str, Any] = {
        "id": new_id("sho"),
        "type": "shell_call_output",
        "status": "in_progress",
        "call_id": call_id,
        "max_output_length": action["max_output_length"],
    }
    index = writer.add_item({**base, "output": []})
    writer.emit("shell_call_output_content.done", index, command_index=0, output=outputs)
    writer.finish_item(index, status="completed", output=outputs)


def _output(finished: CommandResult, most: int) -> dict[str, Any]:
    outcome: dict[str, Any] = {"type": "exit", "exit_code": finished.exit_code}
    return {
        "stdout": finished.stdout.decode("utf-8", "replace")[:most],
        "stderr": finished.stderr.decode("utf-8", "replace")[:most],
        "outcome": {"type": "timeout"} if finished.timed_out else outcome,
    }


def _told(outputs: Sequence[Mapping[str, Any]], loss: str | None) -> str:
    parts = [] if loss is None else [loss]
    for output in outputs:
        outcome = output["outcome"]
        ended = outcome.get("exit_code", "timed out")
        parts.append(f"{output['stdout']}{output['stderr']}(exit code: {ended})")
    return "\n".join(parts)
