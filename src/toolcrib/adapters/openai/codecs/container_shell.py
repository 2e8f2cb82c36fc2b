"""The shell in a container of the provider, on the Responses API."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, assert_never

from toolcrib.adapters.cited_files import unique_files
from toolcrib.adapters.codec import (
    Codec,
    Invocation,
    RawItem,
    failure_of,
    outcome_of,
    status_of,
    with_answer,
)
from toolcrib.adapters.items import (
    mapping_of,
    mappings_of,
    maybe_int,
    maybe_text,
    text_of,
    texts_of,
)
from toolcrib.adapters.openai.codecs.files import files_of
from toolcrib.adapters.openai.container_options import wire_callers, wire_options
from toolcrib.tools.code_interpreter import AutoContainer, ExistingContainer
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.shell import (
    KIND,
    CommandOutput,
    ContainerShellConfig,
    InlineSkill,
    ShellParams,
    ShellResult,
    Skill,
    SkillReference,
)

CALL: Final = "shell_call"
OUTPUT: Final = "shell_call_output"


class OpenAIContainerShellCodec(Codec[ContainerShellConfig, ShellResult]):
    """Speaks for `shell` in a container. A call and its output are two items with one `call_id`."""

    kind = KIND
    call_types: ClassVar[frozenset[str]] = frozenset({CALL})
    params_type: ClassVar[type[Any] | None] = ShellParams
    result_type: ClassVar[type[Any] | None] = ShellResult

    def serialize(self, tool: HostedTool[ContainerShellConfig]) -> dict[str, Any]:
        return {
            "type": "shell",
            "environment": _environment(tool.config),
            **wire_callers(tool.config.allowed_callers),
        }

    def is_call(self, item: RawItem, tool: HostedTool[ContainerShellConfig]) -> bool:
        # Commands for this machine come in the same shape, and nobody has run them yet.
        is_local = mapping_of(item, "environment").get("type") == "local"
        return super().is_call(item, tool) and not is_local

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[ContainerShellConfig]
    ) -> Invocation:
        answers = list(_answers(item, items))
        failure = _failure(item, answers)
        status = status_of(answers[-1] if answers else item, failure)
        result = replace(_result(item, answers), files=files_of(item, items), status=status)
        error = failure or result.fault
        result = replace(result, error=error)
        return Invocation(
            item_id=text_of(item, "id"),
            kind=self.kind,
            params=_shell_params(item),
            value=result,
            message="\n".join(filter(None, (failure, result.render()))),
            success=error is None,
            error=error,
            raw=with_answer(item, answers[-1] if answers else None),
        )

    def combine(
        self,
        values: Sequence[ShellResult],
        items: Sequence[RawItem],
        tool: HostedTool[ContainerShellConfig],
    ) -> ShellResult | None:
        """The outputs of all commands of all calls, in order."""
        if not values:
            return None
        return ShellResult(
            outputs=tuple(output for value in values for output in value.outputs),
            container_id=values[-1].container_id,
            files=unique_files([file for value in values for file in value.files]),
            **outcome_of(values),
        )


def _environment(config: ContainerShellConfig) -> dict[str, Any]:
    container = config.container
    match container:
        case ExistingContainer(id=container_id):
            return {"type": "container_reference", "container_id": container_id}
        case AutoContainer():
            wire = {"type": "container_auto", **wire_options(container)}
            if config.skills:
                wire["skills"] = [_skill(skill) for skill in config.skills]
            return wire
        case _:
            assert_never(container)


def _skill(skill: Skill) -> dict[str, Any]:
    match skill:
        case SkillReference(id=skill_id, version=version):
            wire = {"type": "skill_reference", "skill_id": skill_id}
            return wire if version is None else {**wire, "version": version}
        case InlineSkill():
            source = {
                "type": "base64",
                "media_type": "application/zip",
                "data": base64.b64encode(skill.archive).decode(),
            }
            return {
                "type": "inline",
                "name": skill.name,
                "description": skill.description,
                "source": source,
            }
        case _:
            assert_never(skill)


def _shell_params(item: RawItem) -> ShellParams:
    action = mapping_of(item, "action")
    return ShellParams(
        texts_of(action, "commands"),
        maybe_int(action, "timeout_ms"),
        maybe_int(action, "max_output_length"),
    )


def _answers(item: RawItem, items: Sequence[RawItem]) -> Iterator[RawItem]:
    call_id = text_of(item, "call_id")
    for other in items:
        if call_id and text_of(other, "type") == OUTPUT and text_of(other, "call_id") == call_id:
            yield other


def _result(item: RawItem, answers: Sequence[RawItem]) -> ShellResult:
    outputs = [_output(chunk) for answer in answers for chunk in mappings_of(answer, "output")]
    return ShellResult(tuple(outputs), maybe_text(mapping_of(item, "environment"), "container_id"))


def _output(chunk: RawItem) -> CommandOutput:
    outcome = mapping_of(chunk, "outcome")
    return CommandOutput(
        stdout=text_of(chunk, "stdout"),
        stderr=text_of(chunk, "stderr"),
        exit_code=maybe_int(outcome, "exit_code"),
        timed_out=outcome.get("type") == "timeout",
    )


def _failure(item: RawItem, answers: Sequence[RawItem]) -> str | None:
    """Why the provider could not run the commands, or not to their end."""
    failures = [failure_of(entry) for entry in (item, *answers)]
    if reported := [failure for failure in failures if failure is not None]:
        return reported[0]
    return None if answers else f"{CALL} has no output"
