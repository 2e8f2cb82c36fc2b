"""What must hold after any kill, checked against the ledger, the world and what callers heard."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.workload import IDEMPOTENT, SESSION
from toolcrib import SqliteStore
from toolcrib.approval.decision import Decided
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallInDoubt,
    CallStarted,
    Event,
    ToolInvoked,
)
from toolcrib.ledger.record import Head, verify
from toolcrib.store.store import every


@dataclass
class Story:
    """One call, as the ledger tells it."""

    started: list[CallStarted] = field(default_factory=list[CallStarted])
    doubts: int = 0
    """How often it was reported in doubt since it was last started."""
    requested: list[ApprovalRequested] = field(default_factory=list[ApprovalRequested])
    decided: list[ApprovalDecided] = field(default_factory=list[ApprovalDecided])
    invoked: list[ToolInvoked] = field(default_factory=list[ToolInvoked])

    @property
    def is_running(self) -> bool:
        return bool(self.started) and not self.invoked

    def tell(self, event: Event) -> None:
        match event:
            case CallStarted():
                assert not self.invoked, "a finished call was started again"
                self.started.append(event)
                self.doubts = 0
            case CallInDoubt():
                assert self.is_running, "a call was in doubt that was not running"
                self.doubts += 1
            case ApprovalRequested():
                self.requested.append(event)
            case ApprovalDecided():
                self.decided.append(event)
            case ToolInvoked():
                self.invoked.append(event)
            case _:
                pass


class Books:
    """Everything known about one store over all lives that worked on it."""

    def __init__(self, store: Path, effects: Path) -> None:
        self._path = store
        self._effects = effects
        self._head: Head | None = None
        self._told: dict[str, set[str]] = {}
        self._decisions: dict[str, Decided] = {}
        self._told_decisions: dict[str, str] = {}
        self.stories: dict[str, Story] = {}
        self._seen = 0
        self.interrupted = 0
        """Calls found started and not finished, over all kills: without any, nothing is proven."""

    def hear(self, reports: list[dict[str, Any]]) -> None:
        """Take down what callers were told before the kill."""
        for report in reports:
            match report:
                case {"call": call_id, "status": status}:
                    self._told.setdefault(call_id, set()).add(status)
                case {"decided": approval_id, "decision": decision}:
                    self._told_decisions[approval_id] = decision
                case _:
                    pass

    def check(self) -> None:
        """Open the store as the next process would, and hold it to every rule."""
        with SqliteStore(self._path) as store:
            self._head = verify(store.records(SESSION), self._head)
            assert self._head == store.head(SESSION)
            self._read(store)
            self._check_open_calls(store)
            self._check_decisions(store)
        self.interrupted += sum(story.is_running for story in self.stories.values())
        self._check_effects()
        self._check_reports()
        self._check_stories()

    def check_settled(self) -> None:
        """After a life that ended well nothing is open and every call has one end."""
        self.check()
        with SqliteStore(self._path) as store:
            assert store.open_calls(SESSION) == []
            assert store.approvals(state="pending").items == ()
        for call_id, story in self.stories.items():
            assert len(story.invoked) == 1, call_id
        effects = self.effects()
        for call_id, story in self.stories.items():
            (end,) = story.invoked
            if end.failure is not None and end.failure.kind == "in_doubt":
                assert story.doubts == 1, f"{call_id} was not reported in doubt"
            if end.success and end.name in IDEMPOTENT:
                assert effects[end.name, call_id] >= 1, call_id
            elif end.success:
                assert effects[end.name, call_id] == 1, call_id

    def effects(self) -> Counter[tuple[str, str]]:
        """How often each call touched the world."""
        lines = self._effects.read_text().splitlines() if self._effects.exists() else []
        return Counter((name, call_id) for name, call_id in map(str.split, lines))

    def _read(self, store: SqliteStore) -> None:
        """Read on where the last look ended; the chain up to there was verified again."""
        for record in store.records(SESSION, after=self._seen):
            self._seen = record.seq
            if record.call_id is not None:
                self.stories.setdefault(record.call_id, Story()).tell(record.event)

    def _check_open_calls(self, store: SqliteStore) -> None:
        """Every call that was started or asked about, and has no end, is there to be taken up."""
        calls = store.open_calls(SESSION)
        open_ids = {call.call_id for call in calls}
        assert len(open_ids) == len(calls)
        unfinished = {call_id for call_id, story in self.stories.items() if not story.invoked}
        assert open_ids == unfinished

    def _check_decisions(self, store: SqliteStore) -> None:
        """A decision, once taken, stays as it was and is not asked for again."""
        inbox = {
            filed.request.approval_id: filed
            for filed in every(lambda cursor: store.approvals(cursor=cursor))
        }
        for approval_id, filed in inbox.items():
            if filed.decided is not None:
                known = self._decisions.setdefault(approval_id, filed.decided)
                assert filed.decided == known
        for approval_id, decision in self._told_decisions.items():
            assert self._decisions[approval_id].decision.kind == decision
        for call_id, story in self.stories.items():
            rules = Counter(event.request.rule for event in story.requested)
            assert all(count == 1 for rule, count in rules.items() if rule != "in_doubt"), call_id
            used = Counter(event.decided.approval_id for event in story.decided)
            assert all(count == 1 for count in used.values()), call_id

    def _check_effects(self) -> None:
        """Nothing happens before it is written down, and only idempotent tools repeat."""
        for (name, call_id), count in self.effects().items():
            story = self.stories[call_id]
            assert len(story.started) >= count, call_id
            if name not in IDEMPOTENT:
                assert count == 1, f"{name} ran {count} times for {call_id}"
                assert len(story.started) == 1, call_id
            if name == "transfer":
                approved = [e for e in story.decided if e.decided.decision.kind == "approve"]
                assert len(approved) == 1, call_id

    def _check_reports(self) -> None:
        """What a caller was told is in the ledger."""
        for call_id, statuses in self._told.items():
            story = self.stories[call_id]
            if statuses & {"completed", "failed"}:
                assert len(story.invoked) == 1, f"{call_id} was reported and is lost"
            if "waiting" in statuses:
                assert story.requested, f"{call_id} waited and is lost"

    def _check_stories(self) -> None:
        for call_id, story in self.stories.items():
            assert len(story.invoked) <= 1, f"{call_id} ended twice"
            assert story.doubts <= 1, f"{call_id} was reported in doubt twice"
