"""Questions about sessions: the filters of a listing, and what is counted of each session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from pydantic_core import to_json

from toolcrib.ledger.prompt_events import SUMMARY_PROMPT, PromptStarted
from toolcrib.ledger.record import Record
from toolcrib.store.call_query import FAILED_STATUSES, NANO, CallRow, is_hosted
from toolcrib.store.store import TitleSource

LONGEST_TITLE: Final = 200
METADATA_PATH: Final = ("host", "setup", "metadata")
"""Where the metadata of a session lies in its stored settings."""
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Which sessions, in which order. A filter that is None lets everything pass."""

    owner: str | None = None
    since: float | None = None
    until: float | None = None
    """Created in this time."""
    text: str | None = None
    """Words that are all in the title, the id, the owner or the metadata; the case of letters does
    not count."""
    tool: str | None = None
    """Sessions in which this tool was called; a name, or a pattern with `*`, `?` and `[...]`."""
    has_failures: bool | None = None
    is_waiting: bool | None = None
    """Whether an approval request of the session is pending."""
    newest_first: bool = False

    @property
    def reads_index(self) -> bool:
        """Whether it asks about what happened in sessions, and not only when and whose they are."""
        filters = (self.text, self.tool, self.has_failures, self.is_waiting)
        return any(each is not None for each in filters)

    def is_tool(self, name: str | None) -> bool:
        """Whether this is a tool that it asks for."""
        return name is not None and fnmatchcase(name, self.tool or "*")

    @property
    def words(self) -> list[str]:
        """The words of the text."""
        return (self.text or "").split()


EVERY_SESSION: Final = SessionQuery()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """What the index has of a session: the first words of its ledger, and counts."""

    title: str | None = None
    title_source: TitleSource | None = None
    prompts: int = 0
    """Prompts that somebody sent; those that tools send are part of calls."""
    calls: int = 0
    """Calls of tools that have ended, wait or are in doubt."""
    failures: int = 0
    """Those of them that failed, were denied, or are in doubt."""
    waiting: int = 0
    """Approval requests that are pending."""
    cost: float | None = None
    """In US dollars, of what has a price; None when nothing has one."""


NO_COUNTS: Final = SessionSummary()


def is_own_prompt(kind: str, facts: dict[str, Any]) -> bool:
    """Whether a record starts a prompt that somebody sent: no part of a call, and no summary."""
    return (
        kind == PromptStarted.kind
        and facts.get("parent_call_id") is None
        and facts.get("prompt_name") != SUMMARY_PROMPT
    )


def title_of(text: Any) -> str | None:
    """The beginning of a text in one line; None when nothing is in it."""
    line = _CONTROLS.sub(" ", str(text or "")[: LONGEST_TITLE * 4]).strip()
    return line[:LONGEST_TITLE] or None


def titled(prompt: str | None, tool: str | None) -> tuple[str | None, TitleSource | None]:
    """The title of a session with this first prompt and this first tool."""
    if prompt is not None:
        return prompt, "prompt"
    return (None, None) if tool is None else (tool, "call")


def metadata_of(settings: dict[str, Any]) -> Any:
    """The metadata in the stored settings of a session, as a search looks into it."""
    value: Any = settings
    for key in METADATA_PATH:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value


def summary_of(row: Sequence[Any]) -> SessionSummary:
    """A row of a database: the first prompt, the first tool, the numbers of prompts, calls and
    failures, the cost in billionths of a dollar, and how many requests wait.
    """
    prompt, tool, prompts, calls, failures, nanos, waiting = row
    title, source = titled(prompt, tool)
    return SessionSummary(
        title=title,
        title_source=source,
        prompts=prompts,
        calls=calls,
        failures=failures,
        waiting=waiting,
        cost=None if nanos is None else nanos / NANO,
    )


class SessionWords:
    """The texts of a session in which words are looked for."""

    def __init__(
        self, session_id: str, owner: str | None, title: str | None, settings: dict[str, Any]
    ) -> None:
        metadata = to_json(metadata_of(settings)).decode()
        self._texts = [text.casefold() for text in (session_id, owner, title, metadata) if text]

    def have(self, words: list[str]) -> bool:
        """Whether each word is in one of the texts."""
        return all(any(word.casefold() in text for text in self._texts) for word in words)


class SessionCount:
    """The counts of one session, or how they change by some records."""

    __slots__ = ("calls", "failures", "nanos", "prompt", "prompts", "tool")

    def __init__(self) -> None:
        self.prompt: str | None = None
        """The beginning of the first prompt."""
        self.tool: str | None = None
        """The name of the first tool that was called."""
        self.prompts = 0
        self.calls = 0
        self.failures = 0
        self.nanos: int | None = None

    def take_prompt(self, record: Record, facts: dict[str, Any]) -> None:
        """Count the prompt that a record starts, if somebody sent it."""
        if not is_own_prompt(record.kind, facts):
            return
        self.prompts += 1
        if self.prompt is None:
            self.prompt = title_of(facts.get("text"))

    def take_row(self, before: CallRow | None, row: CallRow) -> None:
        """Count a row of the index of calls, which was `before` until now."""
        if row.kind == "tool":
            if before is None:
                self.calls += 1
            self.failures += _is_failed(row) - _is_failed(before)
            if self.tool is None:
                self.tool = title_of(row.tool)
        if before is None or before.cost is None:
            self._add(row)

    def summary(self, waiting: int = 0) -> SessionSummary:
        """The counts as they are."""
        title, source = titled(self.prompt, self.tool)
        return SessionSummary(
            title=title,
            title_source=source,
            prompts=self.prompts,
            calls=self.calls,
            failures=self.failures,
            waiting=waiting,
            cost=None if self.nanos is None else self.nanos / NANO,
        )

    def _add(self, row: CallRow) -> None:
        # What tools spent on models is in the rows of those requests.
        if row.cost is not None and (row.kind == "model" or is_hosted(row)):
            self.nanos = (self.nanos or 0) + round(row.cost * NANO)


def _is_failed(row: CallRow | None) -> int:
    return int(row is not None and row.status in FAILED_STATUSES)
