"""Memory through pydantic-ai: declared as a native tool, called as a function of the same name."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from toolcrib.adapters.codec import Contribution, RawItem
from toolcrib.adapters.items import json_object_of, mapping_of, text_of
from toolcrib.adapters.pydantic_ai.parts import TOOL_CALL, TOOL_RETURN
from toolcrib.adapters.support import check, options_of
from toolcrib.adapters.tool_calls import (
    AnyProviderTool,
    ClientCall,
    ClientCodec,
    redacted_arguments,
)
from toolcrib.toolkits.memory import KIND, MemoryConfig, MemoryParams
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.redaction import Redactor
from toolcrib.tools.tool import Tool


class MemoryCodec(ClientCodec):
    """The codec of `memory`. pydantic-ai requires a function beside the native tool and sends only
    the native tool, so the tool has two entries.
    """

    kind: ClassVar[str] = KIND
    provider: ClassVar[str] = "anthropic"
    config_type: ClassVar[type[Any]] = MemoryConfig
    params_type: ClassVar[type[Any] | None] = MemoryParams
    call_type: ClassVar[str] = TOOL_CALL
    output_type: ClassVar[str] = TOOL_RETURN

    def __init__(self, provider: str) -> None:
        self._column = provider

    def serialize(self, tool: AnyProviderTool) -> dict[str, Any]:
        check(self._column, KIND, options_of(tool.config))
        return {"type": "memory"}

    def contribute(self, tool: AnyProviderTool) -> Contribution:
        """The native tool, and the function that pydantic-ai requires."""
        declaration = prepare(tool).declaration
        function = {
            "type": "function",
            "name": KIND,
            "description": declaration.description,
            "parameters": declaration.parameters,
        }
        return Contribution((self.serialize(tool), function))

    def speaks_for(self, tool: Tool[Any, Any]) -> bool:
        """Whatever its provider: one without memory is refused later, with the reason."""
        if not isinstance(tool, ProviderTool) or tool.handler is None:
            return False
        return isinstance(cast("AnyProviderTool", tool).config, MemoryConfig)

    def is_call(self, item: RawItem) -> bool:
        return super().is_call(item) and text_of(item, "name") == KIND

    def arguments(self, item: RawItem) -> dict[str, Any]:
        return mapping_of(item, "arguments") or json_object_of(item, "arguments")

    def redacted(self, item: RawItem, redactor: Redactor) -> RawItem:
        return redacted_arguments(item, redactor)

    def output(
        self, call: ClientCall, text: str, *, success: bool, value: Any, failure: str | None
    ) -> dict[str, Any]:
        answer = {"name": KIND, "output": text}
        return answer if success else {**answer, "failure": failure or "failed"}
