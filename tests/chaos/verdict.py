"""The examination after a chaos run: the ledgers, the world, and what people and clients know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.disturbance import DisturbanceLog
from tests.chaos.people import IN_DOUBT, People, Rerun
from tests.chaos.witness import Witness, fingerprint_of
from tests.chaos.world import KEYED, Effect
from toolcrib.errors import LedgerBroken
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallInDoubt,
    CallStarted,
    Event,
    SessionOpened,
    ToolInvoked,
)
from toolcrib.ledger.prompt_events import PromptAnswered, PromptStarted
from toolcrib.ledger.record import events, verify
from toolcrib.store import PostgresStore
from toolcrib.store.store import every

Call = tuple[str, str]


@dataclass(slots=True)
class CallStory:
    """One call, as its ledger tells it."""

    tool: str = ""
    started: list[float] = field(default_factory=list[float])
    doubts: int = 0
    requests: list[str] = field(default_factory=list[str])
    """The rules of the requests since the last attempt."""
    asked_twice: int = 0
    approved_reruns: int = 0
    doubt_requests: set[str] = field(default_factory=set[str])
    ends: int = 0
    is_idempotent: bool = False

    def tell(self, event: Event) -> None:
        match event:
            case ApprovalRequested():
                rule = event.request.rule
                self.asked_twice += rule in self.requests and event.request.supersedes is None
                self.requests.append(rule)
                if rule == IN_DOUBT:
                    self.doubt_requests.add(event.request.approval_id)
            case ApprovalDecided():
                if event.decided.approval_id in self.doubt_requests:
                    self.approved_reruns += event.decided.decision.kind == "approve"
            case CallStarted():
                self.tool = event.tool.name
                self.started.append(event.at)
                self.requests.clear()
            case CallInDoubt():
                self.doubts += 1
            case ToolInvoked():
                self.ends += 1
            case _:
                pass


@dataclass(slots=True)
class Verdict:
    """What came of a chaos run."""

    title: str
    turns: int = 0
    calls: int = 0
    records: int = 0
    in_doubt: int = 0
    lost_turns: list[str] = field(default_factory=list[str])
    lost_records: list[str] = field(default_factory=list[str])
    broken_chains: list[str] = field(default_factory=list[str])
    asked_twice: list[str] = field(default_factory=list[str])
    keyed_doubles: list[str] = field(default_factory=list[str])
    unexplained: list[str] = field(default_factory=list[str])
    explained: list[str] = field(default_factory=list[str])
    repeated_lookups: int = 0
    faults: list[str] = field(default_factory=list[str])
    take_over: list[float] = field(default_factory=list[float])
    """Seconds from each kill to the next writer, for every running turn that was held."""
    after_renewal: list[float] = field(default_factory=list[float])
    """The same, from the last renewal of the lease."""
    disturbances: str = ""
    noted: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def failures(self) -> list[str]:
        """Every rule that did not hold, in words."""
        rules = {
            "turns were lost": self.lost_turns,
            "acknowledged records were lost": self.lost_records,
            "chains are broken": self.broken_chains,
            "approvals were asked for twice": self.asked_twice,
            "effects came twice where the world keeps the key": self.keyed_doubles,
            "effects came twice and nobody approved it": self.unexplained,
            "other faults were seen": self.faults,
        }
        return [
            f"{len(found)} {rule}: {'; '.join(found[:5])}" for rule, found in rules.items() if found
        ]

    def report(self) -> str:
        """The whole of it, for people."""
        lines = [
            f"== {self.title}",
            f"disturbances: {self.disturbances}",
            f"{self.turns} turns, {self.calls} calls, {self.records} records; "
            f"{self.in_doubt} times a call was in doubt, {self.repeated_lookups} idempotent "
            "lookups were repeated",
            f"lost turns {len(self.lost_turns)}, lost acknowledged records "
            f"{len(self.lost_records)}, broken chains {len(self.broken_chains)}, approvals asked "
            f"twice {len(self.asked_twice)}",
            f"effects twice: {len(self.keyed_doubles)} where the world keeps the key, without it "
            f"{len(self.explained)} that a person approved and {len(self.unexplained)} others",
            f"take-over after a kill ({len(self.take_over)} running turns): "
            f"p50 {percentile(self.take_over, 50):.2f} s, p99 {percentile(self.take_over, 99):.2f} "
            f"s; after the last renewal p50 {percentile(self.after_renewal, 50):.2f} s, "
            f"p99 {percentile(self.after_renewal, 99):.2f} s",
            "seen: " + ", ".join(f"{name} {count}" for name, count in sorted(self.noted.items())),
            *(f"double, approved: {text}" for text in self.explained),
            *(f"FAILED: {text}" for text in self.failures),
        ]
        return "\n".join(lines)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which this share lies; not a number without values."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


@dataclass(slots=True)
class Examination:
    """Reads every ledger once, and holds it against all that is known."""

    store: PostgresStore
    witness: Witness
    people: People
    log: DisturbanceLog
    effects: Sequence[Effect]
    begun: Sequence[Effect]
    stories: dict[Call, CallStory] = field(default_factory=dict[Call, CallStory])
    opened: dict[str, list[tuple[int, float]]] = field(
        default_factory=dict[str, list[tuple[int, float]]]
    )

    def verdict(self, title: str) -> Verdict:
        """Examine everything."""
        found = Verdict(title, faults=[*self.witness.faults])
        sessions = list(every(lambda cursor: self.store.sessions(cursor=cursor)))
        known = {session.session_id for session in sessions}
        missing = sorted(self.witness.sessions - known)
        found.lost_records += [f"session {session_id} is gone" for session_id in missing]
        for session_id in sorted(known):
            self._read(session_id, found)
        self._examine_calls(found)
        self._examine_effects(found)
        self._examine_take_over(found)
        self._count(found)
        return found

    def _read(self, session_id: str, found: Verdict) -> None:
        records = list(self.store.records(session_id))
        found.records += len(records)
        try:
            verify(records, self.store.head(session_id))
        except LedgerBroken as error:
            found.broken_chains.append(f"{session_id}: {error}")
        by_seq = {record.seq: record for record in records}
        for (seen_in, seq), hash in self.witness.hashes.items():
            if seen_in == session_id and (seq not in by_seq or by_seq[seq].hash != hash):
                found.lost_records.append(f"{session_id}: record {seq}, which a client has seen")
        for (seen_in, seq), print_ in self.witness.events.items():
            if seen_in == session_id and (
                seq not in by_seq or fingerprint_of(by_seq[seq]) != print_
            ):
                found.lost_records.append(f"{session_id}: event {seq}, which a follower has seen")
        self._read_turns(session_id, list(events(records)), found)

    def _read_turns(self, session_id: str, told: Sequence[Event], found: Verdict) -> None:
        started = sum(isinstance(event, PromptStarted) for event in told)
        answered = sum(isinstance(event, PromptAnswered) for event in told)
        sent = [key for key in self.witness.prompts if key.startswith(f"{session_id}/")]
        found.turns += answered
        if answered != len(sent):
            found.lost_turns.append(f"{session_id}: {len(sent)} prompts, {answered} answers")
        elif started != len(sent):
            found.faults.append(f"{session_id}: {len(sent)} prompts began {started} turns")
        for event in told:
            call_id = getattr(event, "call_id", None)
            if isinstance(event, SessionOpened):
                self.opened.setdefault(session_id, []).append((event.fence, event.at))
            elif call_id is not None:
                self.stories.setdefault((session_id, call_id), CallStory()).tell(event)

    def _examine_calls(self, found: Verdict) -> None:
        for (session_id, call_id), story in self.stories.items():
            found.calls += story.ends
            found.in_doubt += story.doubts
            if story.asked_twice:
                found.asked_twice.append(f"{session_id} {call_id} ({story.tool})")
            if story.ends != 1:
                found.faults.append(f"{session_id}: call {call_id} ended {story.ends} times")
        for (session_id, call_id), status in self.witness.results.items():
            story = self.stories.get((session_id, call_id))
            if status != "waiting" and (story is None or story.ends != 1):
                found.lost_records.append(f"{session_id}: the result of {call_id}")

    def _examine_effects(self, found: Verdict) -> None:
        by_call: dict[Call, list[Effect]] = {}
        for effect in self.effects:
            by_call.setdefault(effect.call, []).append(effect)
        for call, effects in by_call.items():
            if len(effects) < 2:
                continue
            if effects[0].tool == "lookup":
                found.repeated_lookups += 1
                continue
            story = self.stories.get(call, CallStory())
            reruns = [each for each in self.people.reruns.values() if each.call == call]
            text = self._explained(call, effects, reruns)
            if call[0].startswith(KEYED):
                found.keyed_doubles.append(text)
            elif len(effects) <= 1 + story.approved_reruns:
                found.explained.append(text)
            else:
                found.unexplained.append(text)

    def _explained(self, call: Call, effects: Sequence[Effect], reruns: Sequence[Rerun]) -> str:
        """What happened to a call: who began it, what befell them, who approved what, and when."""
        begun = [each for each in self.begun if each.call == call]
        start = min([each.at for each in begun], default=effects[0].at)
        replicas = {each.replica for each in begun}
        moments = [(each.at, f"{each.replica} began") for each in begun]
        moments += [(each.at, f"{each.replica} had the effect") for each in effects]
        moments += [
            (each.at, f"{each.replica}: {each.kind} for {each.seconds:.1f} s")
            for each in self.log.all
            if each.replica in replicas and start - 10 < each.at < effects[-1].at
        ]
        moments += [
            (
                each.at,
                "a person saw no effect and approved the re-run"
                + (", warned that the process may live" if each.could_still_run else ""),
            )
            for each in reruns
        ]
        told = ", ".join(f"{at - start:+.2f} s {text}" for at, text in sorted(moments))
        return f"{effects[0].tool} {call[0]} {call[1]}: {told}"

    def _examine_take_over(self, found: Verdict) -> None:
        for each in self.log.all:
            if each.kind != "kill":
                continue
            for held in each.held:
                later = [
                    at
                    for fence, at in self.opened.get(held.session_id, [])
                    if fence > held.fence and at > each.at
                ]
                if later:
                    found.take_over.append(min(later) - each.at)
                    found.after_renewal.append(min(later) - held.renewed_at)

    def _count(self, found: Verdict) -> None:
        log, people, witness = self.log, self.people, self.witness
        found.disturbances = (
            f"{len(log.all)}: {log.count('kill')} SIGKILL, {log.count('pause')} SIGSTOP longer "
            f"than the lease, {log.count('cut')} times cut off from the database, "
            f"{log.count('restart')} restart of PostgreSQL"
        )
        noted: Counter[str] = Counter()
        noted.update({f"people: {name}": count for name, count in people.decisions.items()})
        noted.update({f"refused {name}": count for name, count in witness.refusals.items()})
        noted["re-runs that people approved"] = len(people.reruns)
        noted["followers"] = witness.followers
        noted["streams of followers"] = witness.streams
        noted["events that followers saw"] = len(witness.events)
        noted["records that clients saw"] = len(witness.hashes)
        noted["replicas that ended by themselves"] = len(log.exits)
        found.noted = dict(noted)
