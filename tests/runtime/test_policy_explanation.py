"""What a running server says would become of a call, and that the gate does the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import BOSS, CALLER, Json, host_tool, serving
from toolcrib import Hooks, ToolContext
from toolcrib.approval.policy_file import load_policy
from toolcrib.errors import Refused
from toolcrib.runtime.principal import Principal
from toolcrib.store.store import Store

POLICY = """\
version: 1
unmatched: ask
deadline: 1h
rules:
  - id: cheap
    allow: pay
    arguments: {/amount: {max: 10}}
  - id: dear
    ask: pay
    arguments: {/amount: {min: 100}}
    deadline: 30m
    approvers: {count: 1, groups: [finance]}
  - id: not-bob
    deny: pay
    principal: bob
"""
SCHEMA: Json = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "note": {"type": "string", "default": "none"}},
    "required": ["amount"],
}
BOB = Principal("bob", frozenset({"caller"}))
FINANCE = Principal("fay", frozenset({"approver"}), frozenset({"finance"}))


async def pay(given: Json, context: ToolContext) -> str:
    return "paid"


@pytest.fixture
def config(tmp_path: Path, store: Store) -> dict[str, Any]:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return {"policy": load_policy(file), "store": store}


TOOL = host_tool("pay", pay, SCHEMA)


@pytest.mark.parametrize(
    ("amount", "outcome", "rule", "status"),
    [
        (5, "runs", "cheap", "completed"),
        (50, "waits", "unmatched", "waiting"),
        (500, "waits", "dear", "waiting"),
    ],
)
async def test_the_gate_does_what_the_explanation_says(
    config: dict[str, Any], amount: int, outcome: str, rule: str, status: str
) -> None:
    """An explanation that differs from the gate would be worse than none."""
    async with serving(TOOL, **config) as runtime:
        caller = runtime.as_principal(CALLER)
        told = await caller.explain_policy("pay", {"amount": amount})
        session = await caller.create_session()
        result = await caller.call_tool(session.session_id, "pay", {"amount": amount})

    assert told.verdict is not None
    assert (told.outcome, told.verdict.rule, result.status) == (outcome, rule, status)


async def test_every_rule_is_told_with_its_line(config: dict[str, Any]) -> None:
    """Whoever wonders why finds the rule in the file, and why the others do not match."""
    async with serving(TOOL, **config) as runtime:
        told = await runtime.as_principal(BOSS).explain_policy("pay", {"amount": 500})

    assert told.verdict is not None
    assert (told.verdict.rule, told.verdict.line) == ("dear", 8)
    assert (told.verdict.file or "").endswith("/policy.yaml")
    assert told.verdict.deadline_seconds == 1_800
    assert [(each.count, each.groups) for each in told.verdict.approvers] == [(1, ["finance"])]
    parts = {each.rule: (each.is_match, each.line, each.why_not) for each in told.rules}
    assert parts["dear"] == (True, 8, None)
    assert parts["cheap"][:2] == (False, 5)
    assert "/amount" in (parts["cheap"][2] or "")
    assert "500" not in repr(told)


async def test_a_caller_is_not_told_whom_rules_for_others_name(config: dict[str, Any]) -> None:
    """The names and groups of other people, and the folder of the file, stay with auditors."""
    async with serving(TOOL, **config) as runtime:
        told = await runtime.as_principal(CALLER).explain_policy("pay", {"amount": 5})
        entry = (await runtime.as_principal(CALLER).list_catalog()).tools[0]

    [other] = [each for each in told.rules if each.rule == "not-bob"]
    assert other.why_not == "it is for other principals or groups"
    assert "bob" not in repr([each.why_not for each in told.rules])
    assert {each.file for each in told.rules} == {"policy.yaml"}
    assert entry.depends_on == ["arguments", "principal"]


async def test_only_auditors_may_ask_about_others(config: dict[str, Any]) -> None:
    """What bob may do is none of another caller's business; nor may groups be made up."""
    async with serving(TOOL, **config) as runtime:
        caller = runtime.as_principal(CALLER)
        for about in ({"principal": "bob"}, {"groups": ["finance"]}):
            with pytest.raises(Refused) as refused:
                await caller.explain_policy("pay", {"amount": 5}, **about)  # pyright: ignore[reportArgumentType]
            assert refused.value.kind == "forbidden"
        own = await caller.explain_policy("pay", {"amount": 5}, principal=CALLER.name)
        told = await runtime.as_principal(BOSS).explain_policy(
            "pay", {"amount": 5}, principal="bob"
        )

    assert own.outcome == "runs"
    assert told.verdict is not None
    assert (told.principal, told.outcome, told.verdict.rule) == ("bob", "refused", "not-bob")


async def test_arguments_that_do_not_fit_are_faults(config: dict[str, Any]) -> None:
    """Such a call never comes before the policy, so there is no verdict about it."""
    async with serving(TOOL, **config) as runtime:
        told = await runtime.explain_policy("pay", {"amount": "x"})

    assert (told.outcome, told.verdict) == ("invalid", None)
    assert [fault.pointer for fault in told.faults] == ["/amount"]


async def test_a_grant_that_covers_the_call_is_named(config: dict[str, Any]) -> None:
    """With a grant the call runs unasked, and the explanation says by whose word."""
    async with serving(TOOL, **config) as runtime:
        caller = runtime.as_principal(CALLER)
        session = await caller.create_session()
        waiting = await caller.call_tool(session.session_id, "pay", {"amount": 500})
        grant: Json = {"scope": "principal", "arguments": {"/amount": {"max": 600}}}
        decision = {"approval_id": waiting.approval_id, "decision": "approve", "grant": grant}
        await runtime.ask("approvals.decide", decision, FINANCE)

        covered = await caller.explain_policy("pay", {"amount": 500})
        beyond = await caller.explain_policy("pay", {"amount": 700})

    assert (covered.outcome, covered.grant and covered.grant.created_by) == ("runs", "fay")
    assert (beyond.outcome, beyond.grant) == ("waits", None)


async def test_what_may_still_make_it_otherwise_is_noted(store: Store) -> None:
    """Hooks run before the policy, and nothing but a real call shows what they do."""

    async def watch(context: Any, name: str, arguments: Json) -> Json:
        return arguments

    async with serving(TOOL, store=store, hooks=Hooks(global_pre=watch)) as runtime:
        told = await runtime.explain_policy("pay")

    assert (told.outcome, told.has_policy, told.rules) == ("runs", False, [])
    assert "Hooks of the host" in told.notes[0]


async def test_an_explanation_leaves_no_trace(config: dict[str, Any], store: Store) -> None:
    """To ask what would happen is no call: nothing is recorded and no session is made."""
    async with serving(TOOL, **config) as runtime:
        await runtime.explain_policy("pay", {"amount": 500})

        assert (await runtime.list_calls()).calls == []
        assert (await runtime.list_sessions()).sessions == []
