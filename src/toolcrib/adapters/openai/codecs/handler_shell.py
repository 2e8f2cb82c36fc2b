"""The shell whose commands a handler of this process runs, on the Responses API."""

from __future__ import annotations

from typing import Any, ClassVar

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.items import mapping_of, mappings_of, maybe_int, text_of
from toolcrib.adapters.openai.container_options import wire_callers
from toolcrib.adapters.openai.items import caller_of
from toolcrib.adapters.tool_calls import (
    AnyProviderTool,
    ClientCall,
    ClientCodec,
    present,
)
from toolcrib.tools.shell import (
    KIND,
    CommandOutput,
    HandlerShellConfig,
    LocalSkill,
    ShellParams,
    ShellResult,
)


class OpenAIHandlerShellCodec(ClientCodec):
    """Speaks for `shell` with a local environment."""

    kind: ClassVar[str] = KIND
    provider: ClassVar[str] = "openai"
    config_type: ClassVar[type[Any]] = HandlerShellConfig
    params_type: ClassVar[type[Any] | None] = ShellParams
    call_type: ClassVar[str] = "shell_call"
    output_type: ClassVar[str] = "shell_call_output"

    def serialize(self, tool: AnyProviderTool) -> dict[str, Any]:
        config: HandlerShellConfig = tool.config
        # Always sent: what no environment means is not documented.
        environment: dict[str, Any] = {"type": "local"}
        if config.skills:
            environment["skills"] = [_skill(skill) for skill in config.skills]
        return {
            "type": "shell",
            "environment": environment,
            **wire_callers(config.allowed_callers),
        }

    def is_call(self, item: RawItem) -> bool:
        is_hosted = mapping_of(item, "environment").get("type") == "container_reference"
        return super().is_call(item) and not is_hosted

    def arguments(self, item: RawItem) -> dict[str, Any]:
        action = mapping_of(item, "action")
        return present(action, "commands", "timeout_ms", "max_output_length")

    def output(
        self, call: ClientCall, text: str, *, success: bool, value: Any, failure: str | None
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "output": _chunks(text, success, value, failure),
            "status": "completed",
            **caller_of(call.item),
        }
        # The provider cuts the output; it must be told again where.
        length = maybe_int(mapping_of(call.item, "action"), "max_output_length")
        return answer if length is None else {**answer, "max_output_length": length}


def _skill(skill: LocalSkill) -> dict[str, str]:
    return {"name": skill.name, "description": skill.description, "path": skill.path}


def _chunks(text: str, success: bool, value: Any, failure: str | None) -> list[dict[str, Any]]:
    """The outputs as they are, unless `text` says otherwise: something may have been cut from it,
    hidden in it or added to it, and the model is to see no more than that.
    """
    result = _result(value)
    if success and result.outputs and text == result.render():
        return [_chunk(output) for output in result.outputs]
    ended = next((output for output in result.outputs if output.fault), CommandOutput())
    exit_code = ended.exit_code if success else ended.exit_code or 1
    timed_out = ended.timed_out or failure == "timeout"
    shown = {"stdout": text} if success else {"stderr": text}
    return [_chunk(CommandOutput(**shown, exit_code=exit_code, timed_out=timed_out))]


def _result(value: Any) -> ShellResult:
    """What the handler gave, also when it was read back from a ledger as plain JSON."""
    if isinstance(value, ShellResult):
        return value
    outputs = mappings_of(mapping_of({"value": value}, "value"), "outputs")
    return ShellResult(
        tuple(
            CommandOutput(
                text_of(output, "stdout"),
                text_of(output, "stderr"),
                maybe_int(output, "exit_code"),
                output.get("timed_out") is True,
            )
            for output in outputs
        )
    )


def _chunk(output: CommandOutput) -> dict[str, Any]:
    ending = {"type": "exit", "exit_code": output.exit_code or 0}
    return {
        "stdout": output.stdout,
        "stderr": output.stderr,
        "outcome": {"type": "timeout"} if output.timed_out else ending,
    }
