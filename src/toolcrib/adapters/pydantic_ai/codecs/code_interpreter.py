"""The code interpreter through pydantic-ai: the runs of all providers, read into one type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from toolcrib.adapters.cited_files import files_by_call, unique_files
from toolcrib.adapters.codec import Invocation, RawItem
from toolcrib.adapters.items import (
    mapping_of,
    mappings_of,
    maybe_int,
    maybe_text,
    text_of,
    texts_of,
)
from toolcrib.adapters.pydantic_ai.codecs.files import base64_of, images_of, media_type
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall, details_of
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.adapters.pydantic_ai.parts import NATIVE_CALL, RESPONSE, messages_in
from toolcrib.tools.code_interpreter import (
    KIND,
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    CodeRun,
    ExistingContainer,
    GeneratedFile,
)
from toolcrib.tools.code_interpreter.types import fatal_traceback
from toolcrib.tools.provider_tools import HostedTool

_STDOUT: Final = ("stdout", "stdOut")
_STDERR: Final = ("stderr", "stdErr")
_EXIT_CODE: Final = ("return_code", "exitCode", "ret")
_OUTCOME: Final = "OUTCOME_"


def run_of(call: HostedCall, items: Sequence[RawItem]) -> CodeInterpreterResult:
    """The code of one call and its output."""
    container = maybe_text(call.arguments, "container_id") or _container(call, items)
    common: dict[str, Any] = {
        "code": code_of(call.arguments),
        "container_id": container,
        "images": tuple(map(_data_url, images_of(call, items))),
    }
    facts = call.facts
    if "outcome" in facts:
        return CodeInterpreterResult(**common, **_by_outcome(facts))
    if "logs" in facts:
        return CodeInterpreterResult(**common, **_by_logs(facts))
    return CodeInterpreterResult(
        **common,
        stdout=_first_text(facts, _STDOUT)
        or _edited(facts)
        or text_of(call.result_item, "content"),
        stderr=next((text_of(facts, key) for key in _STDERR if key in facts), None),
        exit_code=next(
            (code for key in _EXIT_CODE if (code := maybe_int(facts, key)) is not None), None
        ),
        files=tuple(_files(facts, container or "")),
    )


def code_of(arguments: RawItem) -> str:
    """The code: a program, a shell command, or a command of the file editor."""
    code = _first_text(arguments, ("code", "snippet"))
    command, path = text_of(arguments, "command"), text_of(arguments, "path")
    if code or not path:
        return code or command
    texts = ("file_text", "old_str", "new_str", "insert_text")
    lines = [f"{command} {path}", *(text_of(arguments, key) for key in texts)]
    return "\n".join(filter(None, lines))


def fault_of(run: CodeInterpreterResult, call: HostedCall) -> str | None:
    """How the code itself failed; None when it did not, as far as the provider says."""
    outcome = text_of(call.facts, "outcome").removeprefix(_OUTCOME).lower()
    if outcome not in ("", "ok", "unspecified"):
        return f"the code failed: {outcome}"
    if run.is_inferred and run.stderr:
        last = run.stderr.splitlines()[-1]
        return f"the code ended with an exception, to judge by its output: {last}"
    if run.exit_code:
        return f"the code ended with exit code {run.exit_code}"
    if call.facts.get("isError") is True:
        return "the code ended with an error"
    return maybe_text(call.facts, "error") or None


def _container(call: HostedCall, items: Sequence[RawItem]) -> str | None:
    """The last container that a response names: some providers name it once per response."""
    last = call.result_item or call.call_item
    container: str | None = None
    for item in items:
        if item.get("type") == RESPONSE:
            details = mapping_of(item, "provider_details") or details_of(item)
            container = maybe_text(details, "container_id") or container
        elif item is last or item == last:
            break
    return container


def _by_outcome(facts: RawItem) -> dict[str, Any]:
    """Gemini has one output: stdout when the code succeeded, else stderr."""
    output = text_of(facts, "output")
    is_ok = text_of(facts, "outcome") == f"{_OUTCOME}OK"
    return {"stdout": output} if is_ok else {"stderr": output}


def _by_logs(facts: RawItem) -> dict[str, Any]:
    """OpenAI mixes all output; a traceback at its end is the only sign of a failure."""
    stdout = joined(texts_of(facts, "logs"))
    traceback = fatal_traceback(stdout)
    if traceback is None:
        return {"stdout": stdout}
    return {"stdout": stdout, "stderr": traceback, "exit_code": 1, "is_inferred": True}


def joined(texts: Iterable[str]) -> str:
    """The texts, each on a line of its own."""
    lines = ""
    for text in filter(None, texts):
        lines += text if not lines or lines.endswith("\n") else f"\n{text}"
    return lines


def _edited(facts: RawItem) -> str:
    """The output of the file editor: a file, or the lines that it changed."""
    return text_of(facts, "content") or "\n".join(texts_of(facts, "lines"))


def _files(facts: RawItem, container: str) -> list[GeneratedFile]:
    entries = [*mappings_of(facts, "content"), *mappings_of(facts, "output_files")]
    return [
        GeneratedFile(container, file_id, text_of(entry, "filename") or text_of(entry, "name"))
        for entry in entries
        if (file_id := text_of(entry, "file_id"))
    ]


def _data_url(item: RawItem) -> str:
    return f"data:{media_type(item)};base64,{base64_of(item)}"


def _first_text(item: RawItem, keys: Iterable[str]) -> str:
    return next((text for key in keys if (text := text_of(item, key))), "")


_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "openai-responses": {
        "openai_include_code_execution_outputs": True,
    },
    "xai": {"xai_include_code_execution_output": True},
}
_SYSTEMS: Final = {"openai-responses": "openai"}


class CodeInterpreterCodec(NativeCodec[CodeInterpreterConfig, CodeInterpreterResult]):
    """The codec of `code_interpreter`. Anthropic runs programs, shell commands and a file editor
    under this name; each is a run.
    """

    kind = KIND
    native = "code_execution"
    params_type: ClassVar[type[Any] | None] = CodeRun
    result_type: ClassVar[type[Any] | None] = CodeInterpreterResult

    def __init__(self, provider: str, system: str | None = None) -> None:
        """`system` is the model's own name for its provider, under which files are uploaded."""
        super().__init__(provider)
        self._system = system or _SYSTEMS.get(provider, provider)

    def fields(self, config: CodeInterpreterConfig) -> dict[str, Any]:
        container = config.container
        if not isinstance(container, AutoContainer) or not container.file_ids:
            return {}
        files = [{"file_id": key, "provider_name": self._system} for key in container.file_ids]
        return {"files": files}

    def settings(self, config: CodeInterpreterConfig) -> dict[str, Any]:
        settings = dict(_SETTINGS.get(self.provider, {}))
        if isinstance(config.container, ExistingContainer) and self.provider == "anthropic":
            settings["anthropic_container"] = config.container.id
        return settings

    def read(
        self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[CodeInterpreterConfig]
    ) -> Invocation:
        run = run_of(call, items)
        failure = call.failure
        error = failure or fault_of(run, call)
        files = unique_files([*run.files, *_cited_files(call, items)])
        run = replace(run, files=files, status=call.status, error=error)
        return Invocation(
            item_id=call.id,
            kind=self.kind,
            params=CodeRun(run.code, run.container_id),
            value=run,
            message="\n".join(filter(None, (failure, run.render()))),
            success=error is None,
            error=error,
            raw=call.raw,
        )

    def combine(
        self,
        values: Sequence[CodeInterpreterResult],
        items: Sequence[RawItem],
        tool: HostedTool[CodeInterpreterConfig],
    ) -> CodeInterpreterResult | None:
        return CodeInterpreterResult.of(values)


def _cited_files(call: HostedCall, items: Sequence[RawItem]) -> tuple[GeneratedFile, ...]:
    """The files of a call that the texts among the items cite."""
    containers = {
        at: maybe_text(mapping_of(item, "arguments"), "container_id")
        for at, item in enumerate(items)
        if item.get("type") == NATIVE_CALL and item.get("name") == CodeInterpreterCodec.native
    }
    made = files_by_call(containers, messages_in(items))
    return next((made[at] for at in made if text_of(items[at], "id") == call.id), ())
