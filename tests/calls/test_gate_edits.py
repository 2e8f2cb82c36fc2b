"""Approving with other arguments: judged like any others, recorded beside the first, and told."""

from pathlib import Path
from typing import Annotated, Any

import pytest

from tests.calls.payments import Desk, Says, kind_of
from tests.calls.places import history
from toolcrib.approval.decision import Actor, Approve
from toolcrib.approval.pattern import Between
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.executor import Executor
from toolcrib.calls.hooks import Hooks
from toolcrib.errors import ApprovalRequired, InvalidDecision
from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested, ToolInvoked
from toolcrib.session.session import Session
from toolcrib.store import SqliteStore
from toolcrib.tools.context import ToolContext
from toolcrib.tools.decorator import tool
from toolcrib.tools.secrets import Secret

ASK = Policy(
    (
        Rule("ask", "pay"),
        Rule("deny", "pay", arguments={"/amount": Between(min=100)}, id="huge"),
    )
)


async def test_both_versions_are_in_the_record_and_the_model_is_told() -> None:
    """What was asked, what was decided and what ran can be told apart, by everybody."""
    desk = Desk(ASK)
    await desk.call(9, "c1")

    (outcome,) = await desk.decide("c1", Approve({"amount": 3, "to": "bob"}))

    ran = {"amount": 3, "to": "bob"}
    assert desk.ran == [ran]
    assert desk.events(ApprovalRequested)[0].request.arguments == {"amount": 9, "to": "ada"}
    assert desk.events(ApprovalDecided)[0].decided.decision == Approve(ran)
    (finished,) = desk.events(ToolInvoked)
    assert (finished.params, finished.was_edited) == (ran, True)
    assert finished.arguments_digest != desk.events(ApprovalDecided)[0].decided.digest
    assert outcome.value == "paid 3"
    assert '{"amount":3,"to":"bob"}' in outcome.text
    assert finished.message == outcome.text


async def test_a_call_that_was_not_edited_says_nothing_of_edits() -> None:
    """The note is for the model that asked for something else."""
    desk = Desk(ASK)
    await desk.call(9, "c1")

    (outcome,) = await desk.decide("c1", Approve())

    assert outcome.text == "paid 9"
    assert not desk.events(ToolInvoked)[0].was_edited


@pytest.mark.parametrize("is_asked_at_once", [True, False])
async def test_a_deny_rule_wins_over_an_edit(is_asked_at_once: bool) -> None:
    """A person cannot approve what the policy forbids; the record names the rule."""
    edit = Approve({"amount": 100})
    desk = Desk(ASK, Says(edit) if is_asked_at_once else None)

    outcome = await desk.call(9, "c1")
    if not is_asked_at_once:
        (outcome,) = await desk.decide("c1", edit)

    assert kind_of(outcome) == "not_permitted"
    assert desk.ran == []
    assert desk.events(ToolInvoked)[0].decided_by == Actor("rule", "huge")


@pytest.mark.parametrize("edited", [{"amount": "much"}, {}, {"amount": 1, "more": 2}], ids=str)
async def test_an_edit_that_does_not_fit_decides_nothing(edited: dict[str, Any]) -> None:
    """The request stays open, so that somebody can decide it well."""
    desk = Desk(ASK)
    await desk.call(9, "c1")

    with pytest.raises(InvalidDecision, match="not valid"):
        await desk.session.approvals.decide("c1", Approve(edited), by="jo")
    (waiting,) = await desk.executor.resume()
    (outcome,) = await desk.decide("c1", Approve({"amount": 1}))

    assert (waiting.status, outcome.status) == ("waiting", "completed")
    assert desk.ran == [{"amount": 1, "to": "ada"}]


async def test_an_edit_is_copied_when_it_is_made() -> None:
    """Changing the edit after the decision changes nothing."""
    desk = Desk(ASK)
    await desk.call(9, "c1")
    edited = {"amount": 1}
    await desk.session.approvals.decide("c1", Approve(edited), by="jo")
    edited["amount"] = 99

    await desk.executor.resume()

    assert desk.ran == [{"amount": 1, "to": "ada"}]
    assert desk.events(ApprovalDecided)[0].decided.decision == Approve({"amount": 1})


async def test_pre_hooks_do_not_see_an_edit() -> None:
    """T38: they ran before the person was asked; what the person wrote is what runs."""
    seen: list[object] = []

    async def double(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(arguments))
        return {**arguments, "amount": arguments["amount"] * 2}

    desk = Desk(ASK, hooks=Hooks(pre={"pay": double}))
    asked = await desk.call(9, "c1")

    await desk.decide("c1", Approve({"amount": 7}))

    assert asked.approval is not None
    assert asked.approval.arguments == {"amount": 18, "to": "ada"}
    assert seen == [{"amount": 9, "to": "ada"}]
    assert desk.ran == [{"amount": 7, "to": "ada"}]


class Logins:
    """A tool with a secret that asks, and tells what it was called with."""

    def __init__(self, session: Session, metadata: dict[str, Any] | None = None) -> None:
        self.ran: list[object] = []
        self.session = session

        @tool
        async def login(user: str, token: Annotated[str, Secret()], ctx: ToolContext) -> str:
            """Log in."""
            if metadata is not None and not ctx.tool_call_approved:
                raise ApprovalRequired(metadata)
            self.ran.append({"user": user, "token": token})
            return f"{user} is in with {token}"

        self.executor = Executor(session, [login], policy=None if metadata else Policy())

    async def call(self) -> Any:
        arguments = {"user": "ada", "token": "hunter2-hunter2"}
        return (await self.executor.call("login", arguments, call_id="c1")).approval


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_secret_survives_an_edit_of_the_rest(kind: str, tmp_path: Path) -> None:
    """The approver leaves a mark where it is; the tool gets the real secret, the record not."""
    store = SqliteStore(tmp_path / "crib.sqlite3") if kind == "sqlite" else None
    logins = Logins(Session(store=store))
    asked = await logins.call()
    assert asked.arguments == {"user": "ada", "token": "[secret]"}

    edit = Approve({"user": "bob", "token": "[secret]"})
    await logins.session.approvals.decide("c1", edit, by="jo")
    (outcome,) = await logins.executor.resume()

    assert logins.ran == [{"user": "bob", "token": "hunter2-hunter2"}]
    assert "It ran with" in outcome.text
    history(logins.session)
    assert not any(b"hunter2" in (each.payload or b"") for each in logins.session.records())
    await logins.session.close()
    logins.session.store.close()


@pytest.mark.parametrize("token", ["mine", None, 1])
async def test_a_secret_cannot_be_edited(token: Any) -> None:
    """A secret typed into an edit would be written down with it."""
    logins = Logins(Session())
    await logins.call()

    with pytest.raises(InvalidDecision, match="secret"):
        await logins.session.approvals.decide(
            "c1", Approve({"user": "ada", "token": token}), by="jo"
        )

    assert logins.ran == []


async def test_metadata_does_not_publish_a_secret() -> None:
    """A preview that quotes a secret argument shows the mark instead."""
    logins = Logins(Session(), {"preview": "login ada hunter2-hunter2", "n": [1]})

    asked = await logins.call()

    assert asked.metadata == {"preview": "login ada [secret]", "n": [1]}
