"""Follows the approval requests of a store or a server, and lets a person decide them here."""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from toolcrib.approval.caller import Caller
from toolcrib.approval.console import Console
from toolcrib.approval.decision import Actor, Answer, ApprovalRequest, Approve, Deny
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.pattern_json import write_pattern
from toolcrib.approval.quorum import Quorum
from toolcrib.approval.terminal import ApprovalDialog
from toolcrib.cli.output import show_note
from toolcrib.errors import EndOfInput, InvalidDecision, Refused
from toolcrib.runtime.service import as_json
from toolcrib.runtime.typed_approvals import every_request
from toolcrib.terminal_text import STATUS_STYLES, showable
from toolcrib.tools.identity import ToolRef

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Reply
    from toolcrib.runtime.blocking_operations import BlockingOperations
    from toolcrib.runtime.typed_operations import TypedOperations

POLL_SECONDS: Final = 1.0
_AWAY: Final = ("unavailable", "closing", "busy", "too_many_requests", "internal")
"""Refusals after which the next look may succeed."""
_OVER: Final = ("not_found", "conflict", "forbidden", "unauthorized")
"""Refusals after which this person cannot decide the request."""
Facts = dict[str, Any]


class RequestSource(Protocol):
    """The pending requests, and the way to decide them. Both raise `Refused`."""

    async def pending(self) -> list[Facts]:
        """The pending requests, oldest first."""
        ...

    async def decide(self, params: Facts) -> Facts:
        """Decide one; returns it as it stands then."""
        ...


class SessionRequests:
    """The requests of one session, or of all, behind a runtime's operations."""

    def __init__(self, operations: TypedOperations, session_id: str | None) -> None:
        self._operations = operations
        self._session_id = session_id

    async def pending(self) -> list[Facts]:
        """The pending requests, oldest first."""
        requests = await every_request(self._operations, session_id=self._session_id)
        return [as_json(request) for request in requests]

    async def decide(self, params: Facts) -> Facts:
        """Decide one."""
        return as_json(await self._operations.decide(**params))


Sleep = Callable[[float], Awaitable[None]]


async def looks(
    source: RequestSource, tell: Callable[[str], None], sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[list[Facts]]:
    """What is pending, look after look. A server that goes away is waited for, and said once.

    Raises `Refused` when the first look fails.
    """
    requests = await source.pending()
    is_away = False
    while True:
        if not is_away:
            yield requests
        await sleep(POLL_SECONDS)
        try:
            requests = await source.pending()
        except Refused as refused:
            if refused.kind not in _AWAY:
                raise
            if not is_away:
                tell(f"no answer: {refused}; still trying")
            is_away = True
            continue
        if is_away:
            tell("it answers again")
        is_away = False


async def print_requests(
    source: RequestSource,
    show: Callable[[Facts], None],
    tell: Callable[[str], None],
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Show each request once, when it is new."""
    seen: set[str] = set()
    async for requests in looks(source, tell, sleep):
        for facts in requests:
            if facts["approval_id"] not in seen:
                seen.add(facts["approval_id"])
                show(facts)


def watch_requests(
    service: BlockingOperations,
    session_id: str | None,
    by: str | None,
    show: Callable[[Facts], None] | None,
) -> None:
    """Follow the requests of a service: `show` each new one or, without it, ask about it at the
    terminal. Raises `Refused`.
    """

    async def watched(operations: TypedOperations) -> None:
        source = SessionRequests(operations, session_id)
        if show is not None:
            await print_requests(source, show, lambda text: show_note(text, "yellow"))
            return
        show_note("watching for requests; Ctrl-C ends it", "dim")
        await TerminalWatch(source, by or getpass.getuser()).run()

    service.complete(watched(service.operations))


class TerminalWatch:
    """Asks a person about each new request, with the keys of the approval prompt.

    The bell rings once for a request. A question is withdrawn when somebody else has decided it.
    """

    def __init__(
        self,
        source: RequestSource,
        user: str,
        console: Console | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._source = source
        self._actor = Actor("person", user)
        self._console = console or Console(sys.stdin, sys.stderr)
        self._sleep = sleep
        self._new: asyncio.Queue[Facts] = asyncio.Queue()
        self._pending: set[str] = set()
        self._question: tuple[str, asyncio.Task[None]] | None = None

    async def run(self) -> None:
        """Watch until the terminal goes away or this is cancelled. Raises `Refused`."""
        asking = asyncio.ensure_future(self._ask_all())
        looking = asyncio.ensure_future(self._look())
        try:
            done, _ = await asyncio.wait({asking, looking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (asking, looking):
                task.cancel()
            await asyncio.gather(asking, looking, return_exceptions=True)
        for task in done:
            task.result()

    async def _look(self) -> None:
        seen: set[str] = set()
        async for requests in looks(self._source, self._say, self._sleep):
            self._pending = {facts["approval_id"] for facts in requests}
            for facts in requests:
                if facts["approval_id"] not in seen:
                    seen.add(facts["approval_id"])
                    self._announce(facts)
            if self._question is not None and self._question[0] not in self._pending:
                self._question[1].cancel()

    def _announce(self, facts: Facts) -> None:
        self._console.ring()
        self._new.put_nowait(facts)
        if waiting := self._new.qsize() - 1:
            self._say(f"{waiting} more {'waits' if waiting == 1 else 'wait'} behind this one")

    async def _ask_all(self) -> None:
        while True:
            facts = await self._new.get()
            if facts["approval_id"] in self._pending:
                await self._ask(facts)

    async def _ask(self, facts: Facts) -> None:
        task = asyncio.ensure_future(self._settle(facts))
        self._question = (facts["approval_id"], task)
        try:
            await asyncio.wait({task})
        finally:
            self._question = None
            task.cancel()
        if task.cancelled():
            self._say(f"{facts['tool']} was decided elsewhere; no answer is needed", before="\n")
        else:
            task.result()

    async def _settle(self, facts: Facts) -> None:
        request = request_of(facts)
        dialog = ApprovalDialog(self._console, request, self._actor, is_durable=True)
        while True:
            try:
                params = decision_params(request, await dialog.settle())
                decided = await self._source.decide(params)
            except EndOfInput:
                self._say(f"{facts['tool']} stays open", before="\n")
                return
            except InvalidDecision as error:
                self._console.say(f"Not done: {showable(str(error))}.", "red")
            except Refused as refused:
                self._console.say(f"Not done: {showable(str(refused))}.", "red")
                if refused.kind in _OVER:
                    return
            else:
                self._say_decided(decided)
                return

    def _say_decided(self, decided: Mapping[str, Any]) -> None:
        if decided["state"] == "pending":
            self._say(f"{decided['tool']} waits for more approvers")
            return
        word = {"approve": "approved", "deny": "denied", "answer": "answered"}[decided["decision"]]
        self._console.say(f"{showable(decided['tool'])} {word}", STATUS_STYLES[word])

    def _say(self, text: str, *, before: str = "") -> None:
        self._console.say(before + showable(text), "yellow")


def request_of(facts: Mapping[str, Any]) -> ApprovalRequest:
    """The request that the facts tell of, for the panel and the checks of edits."""
    caller = facts["caller"]
    return ApprovalRequest(
        approval_id=facts["approval_id"],
        session_id=facts["session_id"],
        call_id=facts["call_id"],
        tool=ToolRef(
            facts["tool"],
            facts["tool_source"],
            version=facts["tool_version"],
            digest="",
            place=facts["place"],
        ),
        arguments=facts["arguments"],
        digest=facts["digest"],
        rule=facts["rule"],
        reason=facts["reason"],
        created_at=facts["created_at"],
        deadline=facts["deadline"],
        approvable_at=facts.get("approvable_at"),
        parameters=facts["parameters"],
        metadata=facts["metadata"],
        changes=tuple(facts["changes"]),
        caller=Caller(
            caller["principal"],
            caller["transport"],
            caller["is_model"],
            frozenset(caller["groups"]),
        ),
        approvers=tuple(
            Quorum(quorum["count"], tuple(quorum["groups"])) for quorum in facts["approvers"]
        ),
    )


def decision_params(request: ApprovalRequest, reply: Reply) -> Facts:
    """A reply as the parameters of the decision, bound to what was shown. Raises
    `InvalidDecision` for a grant that cannot be written down.
    """
    params: Facts = {"approval_id": request.approval_id, "digest": request.digest}
    match reply.decision:
        case Approve(arguments=arguments):
            params |= {"decision": "approve", "arguments": arguments}
        case Deny(reason=reason):
            params |= {"decision": "deny", "reason": reason}
        case Answer(value=value):
            params |= {"decision": "answer", "value": value}
        case other:
            raise AssertionError(f"no dialogue gives {other}")
    return params | ({} if reply.grant is None else {"grant": _grant_terms(reply.grant)})


def _grant_terms(grant: NewGrant) -> Facts:
    if "" in grant.arguments:
        raise InvalidDecision(
            "a grant for exactly these arguments is given by the program that asks; type t, or p "
            "with patterns"
        )
    return {
        "scope": grant.scope,
        "arguments": {at: write_pattern(each) for at, each in grant.arguments.items()},
        "expires_in_seconds": grant.expires_in_seconds,
        "uses": grant.uses,
        "unlimited": grant.unlimited,
    }
