"""The policy over the operations: the one in force, the check of a draft, both on past calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import Json, host_tool, serving
from tests.store.facts import delete_payloads
from toolcrib.approval.policy_file import load_policy, parse_policy
from toolcrib.errors import Refused
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.store.store import Store

ANN = Principal("ann", frozenset({"caller"}), frozenset({"finance"}))
BOB = Principal("bob", frozenset({"caller"}))
DORA = Principal("dora", frozenset({"auditor"}))
CAROL = Principal("carol", frozenset({"approver"}))

PAY: Json = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer"},
        "to": {"type": "string"},
        "pin": {"type": "string", "writeOnly": True},
    },
    "required": ["amount"],
    "additionalProperties": False,
}
IN_FORCE = "version: 1\nunmatched: allow\n"


async def pay(arguments: Json, context: object) -> str:
    return "paid"


PAY_TOOL = host_tool("pay", pay, PAY)
READ_TOOL = host_tool("read", pay, is_read_only=True)


async def call(runtime: Runtime, who: Principal, tool: str, **arguments: Any) -> None:
    operations = runtime.as_principal(who)
    sessions = await operations.list_sessions()
    session_id = (
        sessions.sessions[0].session_id
        if sessions.sessions
        else (await operations.create_session(f"{who.name}:1")).session_id
    )
    await operations.call_tool(session_id, tool, arguments)


def served(store: Store, text: str = IN_FORCE) -> Any:
    return serving(PAY_TOOL, READ_TOOL, store=store, policy=parse_policy(text))


async def test_a_dry_run_finds_exactly_the_calls_that_would_change(store: Store) -> None:
    """Issue 15: what would this rule have changed last week; a verdict then and by the draft."""
    async with served(store) as runtime:
        for amount in (5, 50, 500):
            await call(runtime, ANN, "pay", amount=amount, to="shop")
        await call(runtime, BOB, "read")
        draft = (
            "version: 1\nunmatched: allow\nrules:\n"
            "  - id: large\n    ask: pay\n    arguments: {/amount: {min: 50}}\n"
        )

        preview = await runtime.as_principal(DORA).preview_policy(draft, since="7d")

        assert [each.arguments for each in preview.calls] == [
            '{"amount":500,"to":"shop"}',
            '{"amount":50,"to":"shop"}',
        ]
        assert (preview.looked_at, preview.changed, preview.unchanged, preview.unknown) == (
            *(4, 2, 2, 0),
        )
        first = preview.calls[0]
        assert (first.before.effect, first.after.effect) == ("allow", "ask")
        assert (first.after.rule, first.after.line) == ("large", 4)
        assert [(each.tool, each.calls) for each in preview.changes] == [("pay", 2)]
        assert preview.cursor is None


async def test_one_rule_is_added_to_those_in_force(store: Store) -> None:
    """A rule alone is judged together with the policy that is in force."""
    async with served(store, IN_FORCE + "rules:\n  - {id: none, deny: read}\n") as runtime:
        await call(runtime, ANN, "pay", amount=5)
        await call(runtime, ANN, "read")

        preview = await runtime.as_principal(DORA).preview_policy(rule='deny: "*"')

        assert [(each.tool, each.after.rule) for each in preview.calls] == [("pay", "draft rule")]
        assert preview.unchanged == 1


async def test_a_redacted_value_is_counted_as_unknown_and_never_guessed(store: Store) -> None:
    """The ledger has no secrets, so a rule about one cannot be judged on past calls."""
    async with served(store) as runtime:
        await call(runtime, ANN, "pay", amount=5, pin="1234")
        await call(runtime, ANN, "pay", amount=7)
        rule = "deny: pay\narguments: {/pin: {regex: '12.*'}}"

        preview = await runtime.as_principal(DORA).preview_policy(rule=rule)

        assert [(each.doubt, each.calls) for each in preview.doubts] == [("redacted", 1)]
        assert (preview.changed, preview.unchanged, preview.unknown) == (0, 1, 1)


async def test_calls_whose_payloads_were_deleted_are_not_read(store: Store) -> None:
    """They are in no count: nobody takes them for calls that would not have changed."""
    async with served(store) as runtime:
        await call(runtime, ANN, "pay", amount=5)
        await runtime.as_principal(ANN).close_session("ann:1")
        lease = store.acquire("ann:1")
        delete_payloads(store, lease)
        store.release(lease)

        preview = await runtime.as_principal(DORA).preview_policy(rule="deny: pay")

        assert (preview.looked_at, preview.unchanged) == (0, 0)


async def test_a_rule_for_a_group_judges_by_the_groups_of_then(store: Store) -> None:
    """Groups are those that the record has; where it has none, the call is unknown."""
    async with served(store) as runtime:
        await call(runtime, ANN, "pay", amount=5)
        await call(runtime, BOB, "pay", amount=5)

        preview = await runtime.as_principal(DORA).preview_policy(rule="deny: pay\ngroup: finance")

        assert [each.principal for each in preview.calls] == ["ann"]
        assert (preview.unchanged, preview.unknown) == (1, 0)


async def test_a_preview_reads_a_bounded_number_of_calls_and_goes_on(store: Store) -> None:
    """A cursor reads on; together the pages have every call once."""
    async with served(store) as runtime:
        for amount in range(5):
            await call(runtime, ANN, "pay", amount=amount)
        dora = runtime.as_principal(DORA)

        seen: list[str] = []
        cursor = None
        for count in (2, 2, 1):
            page = await dora.preview_policy(rule="deny: pay", limit=2, cursor=cursor)
            assert page.looked_at == count
            seen += [each.arguments for each in page.calls]
            cursor = page.cursor

        assert cursor is None
        assert seen == [f'{{"amount":{amount}}}' for amount in (4, 3, 2, 1, 0)]


async def test_whoever_previews_sees_only_calls_that_they_may_read() -> None:
    """An approver has no calls of others in a preview; a caller has no preview at all."""
    async with serving(PAY_TOOL, policy=parse_policy(IN_FORCE)) as runtime:
        await call(runtime, ANN, "pay", amount=5)

        hidden = await runtime.as_principal(CAROL).preview_policy(rule="deny: pay")
        assert (hidden.looked_at, hidden.calls) == (0, [])
        elsewhere = await runtime.as_principal(CAROL).preview_policy(rule="deny: pay", owner="ann")
        assert elsewhere.looked_at == 0
        ann = runtime.as_principal(ANN)
        for asked in (ann.get_policy(), ann.check_policy("version: 1"), ann.preview_policy("")):
            with pytest.raises(Refused) as refused:
                await asked
            assert refused.value.kind == "forbidden"


async def test_calls_that_no_policy_was_asked_about_are_not_judged() -> None:
    """Invalid arguments end a call before the gate; no rule would have changed that."""
    async with serving(PAY_TOOL, policy=parse_policy(IN_FORCE)) as runtime:
        await call(runtime, ANN, "pay", amount="much")

        preview = await runtime.as_principal(DORA).preview_policy(rule="deny: pay")

        assert (preview.not_judged, preview.changed) == (1, 0)


async def test_without_a_policy_the_draft_is_compared_with_none() -> None:
    """The first policy of a runtime shows what it will change before it is in force."""
    async with serving(PAY_TOOL) as runtime:
        await call(runtime, ANN, "pay", amount=5)
        dora = runtime.as_principal(DORA)

        assert not (await dora.get_policy()).has_policy
        preview = await dora.preview_policy("version: 1")

        assert [(each.before.rule, each.after.effect) for each in preview.calls] == [
            ("default", "ask")
        ]


async def test_a_waiting_call_is_judged_by_what_was_proposed(store: Store) -> None:
    """An open call is in the preview with the arguments of its approval request."""
    text = IN_FORCE + "rules:\n  - {id: people, ask: pay}\n"
    async with served(store, text) as runtime:
        await call(runtime, ANN, "pay", amount=5)

        preview = await runtime.as_principal(DORA).preview_policy(IN_FORCE)

        assert [(each.status, each.before.effect, each.after.effect) for each in preview.calls] == [
            ("waiting", "ask", "allow")
        ]
        assert preview.calls[0].arguments == '{"amount":5}'


@pytest.mark.parametrize(
    ("draft", "message"),
    [
        ("version: 2", "draft:1: version 2 is unknown"),
        ("version: 1\nrules: [{allow: a, deny: b}]", "draft:2: a rule has one of"),
    ],
)
async def test_a_draft_with_faults_is_refused_with_its_line(draft: str, message: str) -> None:
    """Nothing is judged by a draft that no runtime would take."""
    async with serving(PAY_TOOL) as runtime:
        with pytest.raises(Refused, match=message) as refused:
            await runtime.as_principal(DORA).preview_policy(draft)
        assert refused.value.facts["notes"]
        with pytest.raises(Refused, match="a draft or a rule"):
            await runtime.as_principal(DORA).preview_policy(draft, rule="deny: a")


async def test_a_check_finds_every_fault_and_what_may_surprise() -> None:
    """Each fault has its line and columns; a valid text is compared with the real tools."""
    async with serving(PAY_TOOL) as runtime:
        dora = runtime.as_principal(DORA)
        faulty = (
            "version: 1\nunmatched: maybe\nrules:\n  - allow: a b\n  - deny: pay\n    when: x\n"
        )

        report = await dora.check_policy(faulty)

        assert [(note.level, note.line) for note in report.notes] == [
            ("error", 2),
            ("error", 4),
            ("error", 6),
        ]
        assert not report.is_valid
        last = report.notes[-1]
        assert (last.column, last.end_column) == (5, 12)
        assert "did you mean" in last.message or "write one of" in last.message

        surprise = await dora.check_policy(
            "version: 1\nrules:\n  - deny: pai\n  - {deny: pay, arguments: {/amout: 1}}\n"
        )
        assert [note.message for note in surprise.notes] == [
            "no tool is named 'pai'; did you mean 'pay'?",
            "'pay' has no argument at /amout; did you mean 'amount'?",
        ]
        assert (await dora.check_policy("version: 1")).is_valid


async def test_the_policy_in_force_has_its_text_and_tells_of_a_newer_file(tmp_path: Path) -> None:
    """A newer file that was not taken is shown with its faults; its folder is not."""
    file = tmp_path / "policy.yaml"
    file.write_text(IN_FORCE + "rules:\n  - {id: large, ask: pay, reason: money}\n")
    async with serving(PAY_TOOL, policy=load_policy(file)) as runtime:
        carol = runtime.as_principal(CAROL)

        policy = await carol.get_policy()
        assert (policy.file, policy.text) == ("policy.yaml", file.read_text())
        assert policy.newer is None
        assert policy.loaded_at is not None
        assert [(rule.rule, rule.effect, rule.line) for rule in policy.rules] == [
            ("large", "ask", 4)
        ]
        assert str(tmp_path) not in repr(policy)

        file.write_text("version: 1\nrules:\n  - forbid: pay\n")
        newer = (await carol.get_policy()).newer
        assert newer is not None
        assert [note.line for note in newer.notes] == [3]
        assert policy.text == (await carol.get_policy()).text
