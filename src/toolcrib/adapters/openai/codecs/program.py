"""Programs that call tools, on the Responses API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.codec import Codec, Invocation, RawItem, failure_of, status_of, with_answer
from toolcrib.adapters.items import text_of
from toolcrib.tools.program import KIND, ProgramConfig, ProgramParams, ProgramResult
from toolcrib.tools.provider_tools import HostedTool

CALL: Final = "program"
OUTPUT: Final = "program_output"


class OpenAIProgramCodec(Codec[ProgramConfig, ProgramResult]):
    """Speaks for `program`. A program and its result are two items with one `call_id`; the result
    comes in a later response when the program called tools of ours.
    """

    kind = KIND
    call_types: ClassVar[frozenset[str]] = frozenset({CALL})
    params_type: ClassVar[type[Any] | None] = ProgramParams
    result_type: ClassVar[type[Any] | None] = ProgramResult

    def serialize(self, tool: HostedTool[ProgramConfig]) -> dict[str, Any]:
        return {"type": "programmatic_tool_calling"}

    def is_over(self, item: RawItem, items: Sequence[RawItem]) -> bool:
        return failure_of(item) is not None or _answer(item, items) is not None

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[ProgramConfig]
    ) -> Invocation:
        answer = _answer(item, items)
        failure = failure_of(item) or (failure_of(answer) if answer is not None else None)
        if answer is None and failure is None:
            failure = "the program has no result"
        code = text_of(item, "code")
        result = ProgramResult(
            code, text_of(answer or {}, "result"), status_of(answer or item, failure), failure
        )
        return Invocation(
            item_id=text_of(item, "id"),
            kind=self.kind,
            params=ProgramParams(code),
            value=result,
            message=result.render(),
            success=failure is None,
            error=failure,
            raw=with_answer(item, answer),
        )


def _answer(item: RawItem, items: Sequence[RawItem]) -> RawItem | None:
    call_id = text_of(item, "call_id")
    for other in items:
        if call_id and text_of(other, "type") == OUTPUT and text_of(other, "call_id") == call_id:
            return other
    return None
