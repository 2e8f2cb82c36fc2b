"""The code interpreter through pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from toolcrib.adapters.answer import Annotation, answer_text
from toolcrib.adapters.codec import Invocation, Item
from toolcrib.adapters.items import mapping_of, mappings_of, plain, text_of
from toolcrib.adapters.pydantic_ai.codecs.code_run import fault_of, has_output, joined, run_of
from toolcrib.adapters.pydantic_ai.codecs.exchange import CALL, Exchange, details_of
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.tools.code_interpreter import (
    KIND,
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    CodeRun,
    ExistingContainer,
    GeneratedFile,
)
from toolcrib.tools.hosted import HostedTool

_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "openai-responses": {
        "openai_include_code_execution_outputs": True,
        # The only place where files that the code made are named.
        "openai_include_raw_annotations": True,
    },
    "xai": {"xai_include_code_execution_output": True},
}
_SYSTEMS: Final = {"openai-responses": "openai"}


class CodeInterpreterCodec(NativeCodec[CodeInterpreterConfig, CodeInterpreterResult]):
    """Speaks for `code_interpreter`. Anthropic runs programs, shell commands and a file editor
    under this one name; each is a run.
    """

    kind = KIND
    native = "code_execution"
    params_type: ClassVar[type[Any] | None] = CodeRun
    result_type: ClassVar[type[Any] | None] = CodeInterpreterResult

    def __init__(self, provider: str, system: str | None = None) -> None:
        """`system` is the model's own name for its provider, by which files are told apart."""
        super().__init__(provider)
        self._system = system or _SYSTEMS.get(provider, provider)

    def fields(self, config: CodeInterpreterConfig) -> dict[str, Any]:
        container = config.container
        if not isinstance(container, AutoContainer) or not container.file_ids:
            return {}
        files = [{"file_id": each, "provider_name": self._system} for each in container.file_ids]
        return {"files": files}

    def settings(self, config: CodeInterpreterConfig) -> dict[str, Any]:
        found = dict(_SETTINGS.get(self.provider, {}))
        if isinstance(config.container, ExistingContainer) and self.provider == "anthropic":
            found["anthropic_container"] = config.container.id
        return found

    def read(
        self, exchange: Exchange, items: Sequence[Item], tool: HostedTool[CodeInterpreterConfig]
    ) -> Invocation:
        run = run_of(exchange, items)
        named = (file for at, file in _cited_files(items) if _maker(at, file, items) == exchange.id)
        run = replace(run, files=_each_once([*run.files, *named]))
        failure = exchange.failure
        error = failure or fault_of(run, exchange)
        return Invocation(
            item_id=exchange.id,
            kind=self.kind,
            params=CodeRun(run.code, run.container_id),
            value=run if failure is None or has_output(run) else None,
            message="\n".join(filter(None, (failure, run.render()))),
            success=error is None,
            error=error,
            raw=exchange.raw,
        )

    def parse_output(
        self, response_items: Sequence[Any], tool: HostedTool[CodeInterpreterConfig]
    ) -> CodeInterpreterResult | None:
        """Code and output of all runs in order; how it ended is how the last run ended."""
        items = [plain(each) for each in response_items]
        runs = [run_of(each, items) for each in self.exchanges(items, tool)]
        if not runs:
            return None
        made = [file for run in runs for file in run.files]
        made += [file for _, file in _cited_files(items)]
        return replace(
            runs[-1],
            code=joined(run.code for run in runs),
            stdout=joined(run.stdout for run in runs),
            files=_each_once(made),
            images=tuple(image for run in runs for image in run.images),
        )


def _cited_files(items: Sequence[Item]) -> Iterator[tuple[int, GeneratedFile]]:
    """Files that an answer's text names, and which item does. They lie among what pydantic-ai keeps
    unread.
    """
    offset = 0
    for index, item in enumerate(items):
        if item.get("type") != "message":
            continue
        length = len(answer_text((item,)))
        for facts in mappings_of(details_of(item), "annotations"):
            file_id = text_of(facts, "file_id")
            if facts.get("type") == "container_file_citation" and file_id:
                note = Annotation(facts, index, offset, length)
                container, name = text_of(facts, "container_id"), text_of(facts, "filename")
                yield index, GeneratedFile(container, file_id, name, note.span())
        offset += length


def _maker(index: int, file: GeneratedFile, items: Sequence[Item]) -> str | None:
    """The last run in the file's container before the text that names it: nothing else says which
    run made a file.
    """
    for item in reversed(items[:index]):
        asked = mapping_of(item, "arguments")
        if item.get("type") == CALL and text_of(asked, "container_id") == file.container_id:
            return text_of(item, "id")
    return None


def _each_once(files: Iterable[GeneratedFile]) -> tuple[GeneratedFile, ...]:
    """Each file once, where the text first mentions it."""
    found: dict[str, GeneratedFile] = {}
    for file in files:
        known = found.get(file.file_id)
        if known is None or known.span is None:
            found[file.file_id] = file
    return tuple(found.values())
