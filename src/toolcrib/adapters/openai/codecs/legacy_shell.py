"""The older local shell (`local_shell`) on the Responses API."""

from __future__ import annotations

from typing import Any, ClassVar

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.items import mapping_of
from toolcrib.adapters.tool_calls import AnyProviderTool, ClientCall, ClientCodec, present
from toolcrib.tools.shell import LEGACY_KIND, LegacyShellConfig, LegacyShellParams


class OpenAILegacyShellCodec(ClientCodec):
    """Speaks for `local_shell`. The answer names its call in `call_id`, as OpenAI's guide has it;
    the types of the SDK (2026-11) know that field as `id`.
    """

    kind: ClassVar[str] = LEGACY_KIND
    provider: ClassVar[str] = "openai"
    config_type: ClassVar[type[Any]] = LegacyShellConfig
    params_type: ClassVar[type[Any] | None] = LegacyShellParams
    call_type: ClassVar[str] = "local_shell_call"
    output_type: ClassVar[str] = "local_shell_call_output"

    def serialize(self, tool: AnyProviderTool) -> dict[str, Any]:
        return {"type": "local_shell"}

    def choice(self, tool: AnyProviderTool) -> Any:
        # `local_shell` is no `tool_choice` of its own.
        return {"type": "allowed_tools", "mode": "required", "tools": [{"type": "local_shell"}]}

    def arguments(self, item: RawItem) -> dict[str, Any]:
        action = mapping_of(item, "action")
        return present(action, "command", "env", "timeout_ms", "user", "working_directory")

    def output(
        self, call: ClientCall, text: str, *, success: bool, value: Any, failure: str | None
    ) -> dict[str, Any]:
        return {"output": text}
