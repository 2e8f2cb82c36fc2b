"""Every operation by its name: who may ask, what is refused, and what is never told."""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import Any, get_type_hints

import pytest

from tests.runtime.host_runtime import Json, call, host_tool, new_session, refusal, serving
from toolcrib import Session
from toolcrib.errors import LeaseLost, Refused
from toolcrib.runtime.operations import OPERATIONS
from toolcrib.runtime.principal import OWNER, ROLES, Principal, Role
from toolcrib.runtime.runtime import Runtime
from toolcrib.runtime.service import as_json

NEEDS: dict[str, tuple[Role, ...]] = {
    "runtime.capabilities": ("caller", "approver", "auditor"),
    "session.create": ("caller",),
    "session.get": ("caller", "auditor"),
    "session.list": ("caller", "auditor"),
    "session.resume": ("caller",),
    "session.fork": ("caller",),
    "session.close": ("caller",),
    "session.delete": ("admin",),
    "tools.list": ("caller", "auditor"),
    "tools.info": ("caller", "auditor"),
    "tools.call": ("caller",),
    "tools.cancel": ("caller",),
    "prompt.send": ("caller",),
    "prompt.resume": ("caller",),
    "prompt.cancel": ("caller",),
    "approvals.list": ("caller", "approver", "auditor"),
    "approvals.get": ("caller", "approver", "auditor"),
    "approvals.context": ("caller", "approver", "auditor"),
    "approvals.events": ("caller", "approver", "auditor"),
    "approvals.decide": ("approver",),
    "questions.list": ("caller", "auditor"),
    "questions.answer": ("caller",),
    "grants.list": ("approver", "auditor"),
    "grants.get": ("approver", "auditor"),
    "grants.preview": ("caller", "approver", "auditor"),
    "grants.revoke": ("approver",),
    "artifacts.get": ("caller", "auditor"),
    "calls.list": ("caller", "auditor"),
    "calls.sums": ("caller", "auditor"),
    "records.list": ("caller", "auditor"),
    "catalog.list": ("caller", "approver", "auditor"),
    "catalog.get": ("caller", "approver", "auditor"),
    "policy.explain": ("caller", "approver", "auditor"),
    "policy.check": ("approver", "auditor"),
    "policy.get": ("approver", "auditor"),
    "policy.preview": ("approver", "auditor"),
    "servers.list": ("caller", "auditor"),
    "events.list": ("caller", "auditor"),
}


def test_the_operations_are_these() -> None:
    """No operation comes, goes or changes its roles by accident."""
    assert {name: each.roles for name, each in OPERATIONS.items()} == NEEDS
    assert all(each.about for each in OPERATIONS.values())


@pytest.mark.parametrize("name", sorted(NEEDS))
async def test_who_lacks_the_role_is_refused(name: str) -> None:
    """Every role but the right ones, and admin's, is not enough; nobody learns of the params."""
    others = frozenset[Role](role for role in ROLES if role not in (*NEEDS[name], "admin"))
    async with serving() as runtime:
        refused = await refusal(runtime, name, {"no": "such"}, Principal("eve", others))
        with pytest.raises(Refused) as let_in:
            await runtime.ask(name, {"no": "such"}, OWNER)

    assert (refused.kind, let_in.value.kind) == ("forbidden", "invalid")


@pytest.mark.parametrize("name", sorted(NEEDS))
async def test_unknown_keys_and_wrong_shapes_are_invalid(name: str) -> None:
    """What an operation does not name is refused with a pointer to it."""
    async with serving() as runtime:
        extra = await refusal(runtime, name, {"no_such_key": 1})
        shape = await refusal(runtime, name, [1, 2])

    assert extra.kind == shape.kind == "invalid"
    assert "/no_such_key" in [each["pointer"] for each in extra.facts["faults"]]


@pytest.mark.parametrize("name", sorted(NEEDS))
def test_params_and_results_are_typed(name: str) -> None:
    """Every operation takes and gives a frozen dataclass that the code says it does."""
    operation = OPERATIONS[name]
    hints = get_type_hints(operation.params)

    assert dataclasses.is_dataclass(operation.params)
    assert dataclasses.is_dataclass(operation.result)
    assert set(hints) >= {field.name for field in dataclasses.fields(operation.params)}


async def test_an_unknown_operation_is_not_found() -> None:
    """A name that is none is told so, shortened."""
    async with serving() as runtime:
        refused = await refusal(runtime, "tools.destroy" * 1_000)

    assert refused.kind == "not_found"
    assert len(refused.message) < 200


async def test_capabilities_tell_all() -> None:
    """R49: protocol version, operations, event kinds, features and limits in one answer."""
    async with serving(max_payload_bytes=5, max_sessions=6, event_backlog=7) as runtime:
        told = await runtime.ask("runtime.capabilities")

    assert (told.protocol, told.operations) == (1, sorted(NEEDS))
    assert {"tool.invoked", "model.text_delta", "events.gap"} <= set(told.events)
    assert (told.max_payload_bytes, told.max_sessions, told.event_backlog) == (5, 6, 7)


async def test_what_breaks_inside_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected error is `internal`, without its text or traceback; the log has both."""

    def fail(session: Session) -> None:
        raise RuntimeError("password=hunter2")

    async with serving(on_session=fail) as runtime:
        with caplog.at_level(logging.ERROR):
            refused = await refusal(runtime, "session.create")

    assert refused.kind == "internal"
    assert "hunter2" not in refused.message + json.dumps(refused.facts)
    assert "hunter2" in caplog.text
    assert "session.create" in caplog.text


async def test_a_session_that_was_taken_over_is_a_conflict() -> None:
    """When another process has become the writer, whoever asks is told that."""

    def lose(session: Session) -> None:
        raise LeaseLost("gone")

    async with serving(on_session=lose) as runtime:
        refused = await refusal(runtime, "session.create")

    assert refused.kind == "conflict"


async def every_answer(runtime: Runtime) -> list[Any]:
    session_id = await new_session(runtime)
    one: Json = {"session_id": session_id}
    waiting = await call(runtime, session_id, "risky", a=1, b=2)
    decision = {
        "approval_id": waiting.approval_id,
        "decision": "approve",
        "grant": {"scope": "session"},
    }
    asked: list[tuple[str, Json]] = [
        ("runtime.capabilities", {}),
        ("session.get", one),
        ("session.list", {}),
        ("tools.list", one),
        ("tools.info", {**one, "name": "add"}),
        ("tools.call", {**one, "name": "add", "arguments": {"a": 1, "b": 2}}),
        ("tools.call", {**one, "name": "add", "arguments": {}}),
        ("approvals.list", {}),
        ("approvals.get", {"approval_id": waiting.approval_id}),
        ("approvals.decide", decision),
        ("grants.list", {}),
        ("questions.list", {}),
        ("events.list", one),
        ("records.list", one),
        ("session.fork", one),
        ("session.close", one),
        ("session.resume", one),
        ("session.delete", one),
    ]
    return [await runtime.ask(name, params) for name, params in asked]


async def test_every_answer_is_plain_json() -> None:
    """R38: what an operation gives becomes JSON, and nothing of it is a Python repr."""
    async with serving(host_tool("add"), host_tool("risky", requires_approval=True)) as runtime:
        answers = await every_answer(runtime)

    for answer in answers:
        told = json.dumps(as_json(answer), allow_nan=False)
        assert " object at 0x" not in told
        names = {field.name for field in dataclasses.fields(answer)}
        assert set(as_json(answer)) == names
