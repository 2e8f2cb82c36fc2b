"""The pending requests of a store's file, for commands that only list them.

To open a store loads all that decides, records and proves calls. The plain case of a list needs one
query. Every other case is left to the store: other layouts, votes, and requests that are overdue,
which are to be recorded as expired first.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from toolcrib.store.sqlite_schema import SCHEMA_VERSION, SqliteFile

BUSY_SECONDS: Final = 5.0
_PENDING: Final = (
    "SELECT request, ballot, deadline FROM approvals"
    " WHERE state = 'pending' AND session_id = ifnull(?, session_id) ORDER BY filed"
)


def pending_requests(path: Path, session_id: str | None, now: float) -> list[dict[str, Any]] | None:
    """The facts of each pending request, oldest first, as the operation `approvals.list` tells
    them; None when only the store itself can tell them.
    """
    # Opening a missing file would create it.
    if not path.is_file():
        return None
    file = SqliteFile(path, "normal", BUSY_SECONDS)
    try:
        with closing(file.connect(read_only=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            rows = connection.execute(_PENDING, (session_id,)).fetchall()
    except sqlite3.Error:
        return None
    is_plain = all(ballot is None and (end is None or end > now) for _, ballot, end in rows)
    if version != SCHEMA_VERSION or not is_plain:
        return None
    try:
        return [_facts(json.loads(request)) for request, _, _ in rows]
    except (ValueError, KeyError, TypeError):
        # The store says what is wrong with it.
        return None


def _facts(request: dict[str, Any]) -> dict[str, Any]:
    caller = request["caller"]
    return {
        "approval_id": request["approval_id"],
        "session_id": request["session_id"],
        "call_id": request["call_id"],
        "tool": request["tool"]["name"],
        "tool_source": request["tool"]["source"],
        "tool_version": request["tool"]["version"],
        "place": request["tool"]["place"],
        "arguments": request["arguments"],
        "digest": request["digest"],
        "state": "pending",
        "rule": request["rule"],
        "reason": request["reason"],
        "created_at": request["created_at"],
        "deadline": request["deadline"],
        "approvable_at": request.get("approvable_at"),
        "parameters": request["parameters"],
        "metadata": request["metadata"],
        "changes": request["changes"],
        "supersedes": request["supersedes"],
        "caller": {
            "principal": caller["principal"],
            "groups": sorted(caller["groups"]),
            "transport": caller["transport"],
            "is_model": caller["is_model"],
        },
        "approvers": request["approvers"],
        "votes": [],
        "edited_arguments": None,
        "decision": None,
        "decided_by": None,
        "decided_at": None,
    }
