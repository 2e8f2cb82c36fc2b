"""What an editor is told of a session that it loads."""

from __future__ import annotations

from typing import Any

from tests.transports.acp.editor import Desk


async def history(at: Desk, session_id: str) -> list[tuple[str, Any]]:
    """What loading a session tells."""
    at.editor.updates.clear()
    await at.agent.load_session(cwd="/", session_id=session_id)
    return [
        (each.session_update, each.status if hasattr(each, "status") else each.content.text)
        for each in at.editor.updates
    ]


GREETED = [
    ("user_message_chunk", "Greet Ada."),
    ("tool_call", "in_progress"),
    ("tool_call_update", "completed"),
    ("agent_message_chunk", "Ada was greeted."),
]
