"""Which events of a model's stream people want to see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.adapters.announcing import Announcer


def announce(event: Any, announcer: Announcer) -> None:
    """Put an event on the bus, or pass over it. The final response counts; these only show."""
    match event.event_kind:
        case "part_start":
            _announce_part(event.part, announcer)
        case "part_delta" if event.delta.part_delta_kind == "text" and event.delta.content_delta:
            announcer.text(event.delta.content_delta)
        case "part_end" if event.part.part_kind == "builtin-tool-call":
            announcer.progress(event.part.tool_call_id, event.part.tool_name, "completed")
        case _:
            pass


def _announce_part(part: Any, announcer: Announcer) -> None:
    match part.part_kind:
        case "text" if part.content:
            announcer.text(part.content)
        case "tool-call" | "builtin-tool-call" | "builtin-tool-return":
            what = "result" if part.part_kind == "builtin-tool-return" else "added"
            announcer.progress(part.tool_call_id, part.tool_name, what)
        case _:
            pass
