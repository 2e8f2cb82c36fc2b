"""Patches on the Responses API."""

from __future__ import annotations

from typing import Any, ClassVar

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.items import mapping_of
from toolcrib.adapters.openai.container_options import wire_callers
from toolcrib.adapters.openai.items import caller_of
from toolcrib.adapters.tool_calls import (
    AnyProviderTool,
    ClientCall,
    ClientCodec,
    present,
)
from toolcrib.toolkits.apply_patch import KIND, ApplyPatchConfig, PatchParams


class OpenAIApplyPatchCodec(ClientCodec):
    """Speaks for `apply_patch`: one item is one operation on one file."""

    kind: ClassVar[str] = KIND
    provider: ClassVar[str] = "openai"
    config_type: ClassVar[type[Any]] = ApplyPatchConfig
    params_type: ClassVar[type[Any] | None] = PatchParams
    call_type: ClassVar[str] = "apply_patch_call"
    output_type: ClassVar[str] = "apply_patch_call_output"

    def serialize(self, tool: AnyProviderTool) -> dict[str, Any]:
        return {"type": "apply_patch", **wire_callers(tool.config.allowed_callers)}

    def arguments(self, item: RawItem) -> dict[str, Any]:
        operation = mapping_of(item, "operation")
        kind = present(operation, "type")
        named = {"operation": kind["type"]} if kind else {}
        return {**named, **present(operation, "path", "diff")}

    def output(
        self, call: ClientCall, text: str, *, success: bool, value: Any, failure: str | None
    ) -> dict[str, Any]:
        status = "completed" if success else "failed"
        return {"status": status, "output": text, **caller_of(call.item)}
