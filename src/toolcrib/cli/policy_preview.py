"""What a draft of a policy would have changed, read page by page and printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from toolcrib.cli.output import show, show_note

if TYPE_CHECKING:
    from toolcrib.runtime.blocking_operations import BlockingOperations

_PAGE: Final = 1_000
_MOST_SHOWN: Final = 20
_COUNTS: Final = ("looked_at", "changed", "unchanged", "unknown", "not_judged")
_DOUBTS: Final = {
    "redacted": "a rule asks about a value that the record hides",
    "arguments": "the record has no arguments",
    "group": "the record does not say in which groups the caller was",
    "tool": "the tool is gone",
}


def read_preview(
    service: BlockingOperations, draft: str | None, params: Mapping[str, Any], limit: int
) -> dict[str, Any]:
    """Every page of a preview together, of at most `limit` calls; `cursor` is where it stopped."""
    from toolcrib.cli.service import plain

    counts = Counter[str]()
    changes, doubts = Counter[tuple[str, str, str]](), Counter[str]()
    calls: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    cursor: str | None = None
    while counts["looked_at"] < limit:
        count = min(_PAGE, limit - counts["looked_at"])
        page = plain(service.preview_policy(draft, **params, cursor=cursor, limit=count))
        counts.update({name: page[name] for name in _COUNTS})
        changes.update(
            {
                (each["tool"], each["before"], each["after"]): each["calls"]
                for each in page["changes"]
            }
        )
        doubts.update({each["doubt"]: each["calls"] for each in page["doubts"]})
        calls += page["calls"]
        notes, cursor = page["notes"], page["cursor"]
        if cursor is None:
            break
    return {
        **{name: counts[name] for name in _COUNTS},
        "changes": [
            {"tool": tool, "before": before, "after": after, "calls": number}
            for (tool, before, after), number in changes.most_common()
        ],
        "doubts": [{"doubt": name, "calls": number} for name, number in doubts.most_common()],
        "calls": calls,
        "notes": notes,
        "cursor": cursor,
    }


def show_preview(result: Mapping[str, Any]) -> None:
    """Print a preview for people: the counts, the changes by tool, and the newest calls."""
    from toolcrib.cli.store_options import short_time_text
    from toolcrib.cli.table import Row, show_table

    for note in result["notes"]:
        colour = "red" if note["level"] == "error" else "yellow"
        show_note(f"line {note['line']}: {note['level']}: {note['message']}", colour)
    show(
        f"{result['looked_at']} past calls: {result['changed']} would have changed, "
        f"{result['unchanged']} would not, {result['unknown']} cannot be told"
    )
    for doubt in result["doubts"]:
        show_note(f"{doubt['calls']} cannot be told: {_DOUBTS[doubt['doubt']]}")
    if result["not_judged"]:
        show_note(f"{result['not_judged']} ended before any policy was asked")
    if result["changes"]:
        cells = [
            Row((each["tool"], each["before"], each["after"], str(each["calls"])))
            for each in result["changes"]
        ]
        show_table(("tool", "in force", "draft", "calls"), cells, widest=(0, 0, 0, 0))
    calls = result["calls"][:_MOST_SHOWN]
    if calls:
        rows = [
            Row(
                (
                    short_time_text(call["at"]),
                    call["principal"] or "-",
                    call["tool"],
                    f"{call['before']['effect']} -> {call['after']['effect']}",
                    call["after"]["rule"],
                    call["arguments"],
                )
            )
            for call in calls
        ]
        header = ("time (UTC)", "by", "tool", "change", "rule", "arguments")
        show_table(header, rows, widest=(19, 16, 24, 14, 20, 0))
    if len(result["calls"]) > len(calls):
        show_note(f"the newest {len(calls)} of {result['changed']}; --json has them all")
    if result["cursor"] is not None:
        show_note("there are older calls in this time: --limit looks at more")
