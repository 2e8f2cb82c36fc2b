"""The code interpreter on the Responses API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeAlias

from toolcrib.adapters.codec import Codec, Invocation, RawItem, failure_of, status_of
from toolcrib.adapters.items import json_object_of, mappings_of, maybe_text, text_of
from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.adapters.openai.codecs.files import files_of
from toolcrib.adapters.openai.container_options import wire_callers, wire_container
from toolcrib.errors import UnsupportedOption
from toolcrib.tools.code_interpreter import (
    KIND,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    CodeRun,
)
from toolcrib.tools.code_interpreter.types import fatal_traceback
from toolcrib.tools.provider_tools import HostedTool

CALL: Final = "code_interpreter_call"
_UNFINISHED: Final = frozenset({"in_progress", "interpreting"})

CodeTool: TypeAlias = HostedTool[CodeInterpreterConfig] | OpenAICodeInterpreterTool


class OpenAICodeInterpreterCodec(Codec[CodeInterpreterConfig, CodeInterpreterResult]):
    """Speaks for `code_interpreter`, also when it is declared as `OpenAICodeInterpreterTool`.

    A call says neither how the code ended nor what it wrote to which stream: everything is one
    text, and a traceback at its end is the only sign of a failure.
    """

    kind = KIND
    call_types: ClassVar[frozenset[str]] = frozenset({CALL})
    include: ClassVar[tuple[str, ...]] = ("code_interpreter_call.outputs",)
    params_type: ClassVar[type[Any] | None] = CodeRun
    result_type: ClassVar[type[Any] | None] = CodeInterpreterResult

    def serialize(self, tool: CodeTool) -> dict[str, Any]:
        if isinstance(tool, OpenAICodeInterpreterTool) and tool.host_mounts:
            raise UnsupportedOption(
                KIND,
                "host_mounts",
                "openai",
                "its containers take uploaded files only; upload them, then give the tool their "
                "file_ids and no host_mounts",
            )
        return {
            "type": "code_interpreter",
            "container": wire_container(tool.config.container),
            **wire_callers(tool.config.allowed_callers),
        }

    def invocation(self, item: RawItem, items: Sequence[RawItem], tool: CodeTool) -> Invocation:
        run = _run(item)
        failure = _failure(item, run)
        error = failure or _exception(run)
        run = replace(
            run, files=files_of(item, items), status=status_of(item, failure), error=error
        )
        return Invocation(
            item_id=text_of(item, "id"),
            kind=self.kind,
            params=CodeRun(run.code, run.container_id),
            value=run,
            message="\n".join(filter(None, (failure, run.render()))),
            success=error is None,
            error=error,
            raw=item,
        )

    def combine(
        self,
        values: Sequence[CodeInterpreterResult],
        items: Sequence[RawItem],
        tool: CodeTool,
    ) -> CodeInterpreterResult | None:
        return CodeInterpreterResult.of(values)


def _run(item: RawItem) -> CodeInterpreterResult:
    """What one call tells, without the files: the answer tells of those."""
    outputs = mappings_of(item, "outputs")
    stdout = _joined(text_of(output, "logs") for output in outputs if output.get("type") == "logs")
    images = (text_of(output, "url") for output in outputs if output.get("type") == "image")
    traceback = fatal_traceback(stdout)
    return CodeInterpreterResult(
        code=_code(item),
        stdout=stdout,
        stderr=traceback,
        exit_code=None if traceback is None else 1,
        is_inferred=traceback is not None,
        container_id=maybe_text(item, "container_id"),
        images=tuple(filter(None, images)),
    )


def _code(item: RawItem) -> str:
    """The code; some providers of this API tell it as a function call's arguments."""
    return text_of(item, "code") or text_of(json_object_of(item, "arguments"), "code")


def _joined(texts: Iterable[str]) -> str:
    """The texts, each on a line of its own."""
    whole = ""
    for text in filter(None, texts):
        whole += text if not whole or whole.endswith("\n") else f"\n{text}"
    return whole


def _failure(item: RawItem, run: CodeInterpreterResult) -> str | None:
    """Why the provider could not run the code, or not to its end."""
    status = text_of(item, "status")
    if status in _UNFINISHED and not _has_output(run):
        return f"{CALL} did not finish: {status}"
    return failure_of(item)


def _exception(run: CodeInterpreterResult) -> str | None:
    if run.stderr is None:
        return None
    return (
        f"the code ended with an exception, to judge by its output: {run.stderr.splitlines()[-1]}"
    )


def _has_output(run: CodeInterpreterResult) -> bool:
    return bool(run.stdout or run.images)
