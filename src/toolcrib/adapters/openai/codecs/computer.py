"""Computer use on the Responses API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.items import mapping_of, mappings_of, text_of
from toolcrib.adapters.tool_calls import AnyProviderTool, ClientCall, ClientCodec, present
from toolcrib.tools.computer import KIND, ComputerConfig, ComputerParams, Screenshot

_BLANK: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY"
    "42YAAAAASUVORK5CYII="
)
"""One white pixel: an answer has to have a picture, and a failed call has none."""
_FIELDS: Final = (
    "type", "x", "y", "button", "keys", "path", "scroll_x", "scroll_y", "text",
)  # fmt: skip


class OpenAIComputerCodec(ClientCodec):
    """Speaks for `computer`: one item is one or more actions, answered with a screenshot."""

    kind: ClassVar[str] = KIND
    provider: ClassVar[str] = "openai"
    config_type: ClassVar[type[Any]] = ComputerConfig
    params_type: ClassVar[type[Any] | None] = ComputerParams
    call_type: ClassVar[str] = "computer_call"
    output_type: ClassVar[str] = "computer_call_output"

    def serialize(self, tool: AnyProviderTool) -> dict[str, Any]:
        config: ComputerConfig = tool.config
        if config.environment is None:
            return {"type": "computer"}
        return {
            "type": "computer_use_preview",
            "environment": config.environment,
            "display_width": config.display_width,
            "display_height": config.display_height,
        }

    def arguments(self, item: RawItem) -> dict[str, Any]:
        checks = list(_checks(item))
        actions = mappings_of(item, "actions") or [mapping_of(item, "action")]
        listed = [present(action, *_FIELDS) for action in actions if action]
        named = {"actions": listed} if listed else {}
        return {**named, "safety_checks": checks} if checks else named

    def output(
        self, call: ClientCall, text: str, *, success: bool, value: Any, failure: str | None
    ) -> dict[str, Any]:
        shown = _shown(value) if success else None
        answer: dict[str, Any] = {
            "output": {"type": "computer_screenshot", "image_url": shown or _BLANK},
            "status": "completed" if shown else "failed",
        }
        checks = list(_checks(call.item))
        # A call with checks runs only after an approval, which acknowledges them.
        return {**answer, "acknowledged_safety_checks": checks} if success and checks else answer


def _checks(item: RawItem) -> Iterator[dict[str, Any]]:
    for check in mappings_of(item, "pending_safety_checks"):
        if text_of(check, "id"):
            yield present(check, "id", "code", "message")


def _shown(value: Any) -> str | None:
    """The screenshot as an address, also when it was read back from a ledger as plain JSON."""
    if isinstance(value, Screenshot):
        return value.url
    facts = mapping_of({"value": value}, "value")
    data = text_of(facts, "base64")
    return Screenshot(data, text_of(facts, "media_type") or "image/png").url if data else None
