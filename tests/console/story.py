"""What happened on a server before a page looks at it: some of all that the console shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolcrib.client import GrantTerms

if TYPE_CHECKING:
    from tests.console.crib import Crib

PROGRAM: Final = '''"""Count what is left, and say what to order."""

import csv
from pathlib import Path

LEAST = {"bolts": 100, "nuts": 100, "saws": 5}

with Path("stock.csv").open() as file:
    for row in csv.DictReader(file):
        missing = LEAST[row["part"]] - int(row["count"])
        if missing > 0:
            print(f"order {missing} of {row['part']}")
'''


@dataclass(frozen=True, slots=True)
class Story:
    """The sessions of the story."""

    chat: str
    """Two questions to the agent, the second of which waits for approval."""
    calls: str
    """Calls without a model: done, approved, denied, failed, and two that wait."""
    hostile: str
    """The agent repeats what a hostile tool has answered."""

    @property
    def paths(self) -> dict[str, str]:
        """Every page of the console, by the name of its picture."""
        return {
            "inbox": "/inbox",
            "sessions": "/sessions",
            "session": f"/sessions/{self.chat}",
            "chat": f"/chat/{self.chat}",
            "tools": "/tools",
            "tool": "/tools/order_parts",
            "servers": "/servers",
            "activity": "/activity",
            "policy": "/policy",
            "grants": "/grants",
            "people": "/people",
        }


def play_story(crib: Crib, *, is_hostile: bool = True) -> Story:
    """Have bob use the tools and the agent, and carol decide about some of it. With `is_hostile`,
    one of the sessions attacks the page.
    """
    bob, carol = crib.operations("bob"), crib.operations("carol")
    chat = bob.create_session("bob:saws-for-december").session_id
    bob.send_prompt(chat, "How many saws and bolts do we have?")
    bob.send_prompt(chat, "Please order fifty saws for December.", waits=False)

    calls = bob.create_session("bob:stock-taking").session_id
    bob.call_tool(calls, "stock_level", {"part": "nuts"})
    bob.call_tool(calls, "order_parts", {"part": "nuts", "count": 5})
    bob.call_tool(calls, "order_parts", {"part": "nuts", "count": 5000})
    bob.call_tool(calls, "broken")
    for count in (40, 30):
        order = {"part": "bolts", "count": count, "note": "by Friday"}
        waiting = bob.call_tool(calls, "order_parts", order)
        assert waiting.approval_id is not None
        if count == 30:
            carol.decide(waiting.approval_id, "approve", grant=GrantTerms(scope="session", uses=5))
            bob.call_tool(calls, "order_parts", order, call_id=waiting.call_id)
        else:
            carol.decide(waiting.approval_id, "deny", reason="There are enough.")
    bob.call_tool(calls, "write_file", {"path": "count_stock.py", "content": PROGRAM})
    bob.call_tool(calls, "run_python", {"code": PROGRAM})

    hostile = bob.create_session("bob:hostile").session_id if is_hostile else calls
    if is_hostile:
        bob.send_prompt(hostile, "Be hostile.")
    return Story(chat, calls, hostile)
