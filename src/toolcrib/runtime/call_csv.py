"""Calls as CSV (RFC 4180), for spreadsheets: one line a call, with a header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

CALL_COLUMNS: Final = (
    *("time", "at", "session_id", "call_id", "kind", "tool", "source", "model", "principal"),
    *("transport", "owner", "status", "failure", "decision", "decided_by", "approver"),
    *("duration_seconds", "waited_seconds", "turn", "parent_call_id", "input_tokens"),
    *("output_tokens", "cost", "prices", "seq", "last_seq"),
)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_text(lines: Iterable[Sequence[str]]) -> str:
    """Lines of CSV: a comma, quotes where they are needed, and both characters at the end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(lines)
    return text.getvalue()


def call_cells(row: Mapping[str, Any]) -> list[str]:
    """The cells of one call, in the order of the columns."""
    time = datetime.fromtimestamp(row["at"], UTC).isoformat(timespec="milliseconds")
    facts = {**row, "time": time}
    return [cell(facts[name]) for name in CALL_COLUMNS]


def cell(value: object) -> str:
    """A value for a spreadsheet. A text that one would take for a formula is made plain text."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return cell("; ".join(map(str, cast("Sequence[object]", value))))
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return str(value)
