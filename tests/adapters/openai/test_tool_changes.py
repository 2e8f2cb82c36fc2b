"""An approval or a grant is bound to what a tool does: its server, its root, its options."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench
from tests.adapters.openai.scripted_provider import Json, message, response
from toolcrib import Approve, Session
from toolcrib.approval import ApprovalRequest
from toolcrib.approval.grant import NewGrant
from toolcrib.errors import InvalidState
from toolcrib.toolkits.apply_patch import apply_patch_tool
from toolcrib.toolkits.memory import memory_tool
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    Container,
    ExistingContainer,
    NetworkPolicy,
    code_interpreter_tool,
)
from toolcrib.tools.mcp import McpConfig, ToolFilter, mcp_tool
from toolcrib.tools.prepared_tool import prepare

ANSWER = response(message("Fine."))


def patch(call_id: str, name: str) -> Json:
    return {
        "type": "apply_patch_call",
        "id": f"apc_{call_id}",
        "call_id": call_id,
        "status": "completed",
        "operation": {"type": "create_file", "path": name, "diff": "+hello\n"},
    }


def question(number: int) -> Json:
    return {
        "type": "mcp_approval_request",
        "id": f"mcpr_{number}",
        "server_label": "docs",
        "name": "search",
        "arguments": '{"query": "cribs"}',
    }


def server(url: str = "https://good.example/mcp", **options: Any) -> Any:
    return mcp_tool(McpConfig(server_label="docs", server_url=url, **options))


def approve(session: Session, call_id: str, grant: NewGrant | None = None) -> None:
    asyncio.run(session.approvals.decide(call_id, Approve(), by="ann", grant=grant))


def only(pending: tuple[ApprovalRequest, ...]) -> ApprovalRequest:
    (request,) = pending
    return request


def test_a_grant_for_one_root_does_not_let_another_be_patched(tmp_path: Path) -> None:
    """Hosted tools 1 (s26): a standing yes for one directory writes into no other."""
    first, second = tmp_path / "ra", tmp_path / "rb"
    first.mkdir()
    second.mkdir()
    session = Session()
    steps = (response(patch("c1", "a.txt")), ANSWER, response(patch("c2", "a.txt")))
    with bench(*steps) as (adapter, _):
        adapter.evaluate(ask(apply_patch_tool(first)), session=session)
        approve(session, "c1", NewGrant(scope="session"))
        adapter.resume(ask(apply_patch_tool(first)), session=session)

        waiting = adapter.evaluate(ask(apply_patch_tool(second)), session=session)

    assert (first / "a.txt").exists()
    assert not (second / "a.txt").exists()
    changes = only(waiting.pending).changes
    assert changes[0].startswith("a grant by ann of ")
    assert f"config.root: {first} -> {second}" in changes


def test_an_approval_for_one_root_is_asked_about_for_another(tmp_path: Path) -> None:
    """Hosted tools 1: the approved call is shown again with the other root, and does not run."""
    first, second = tmp_path / "ra", tmp_path / "rb"
    first.mkdir()
    second.mkdir()
    session = Session()
    with bench(response(patch("c1", "a.txt"))) as (adapter, _):
        adapter.evaluate(ask(apply_patch_tool(first)), session=session)
        approve(session, "c1")

        waiting = adapter.resume(ask(apply_patch_tool(second)), session=session)

    assert waiting.status == "waiting"
    assert f"config.root: {first} -> {second}" in only(waiting.pending).changes
    assert list(second.iterdir()) == list(first.iterdir()) == []


def test_a_grant_for_one_server_does_not_cover_another_of_its_label() -> None:
    """Hosted tools 1 (s19): the label is what the model knows; the address is what is called."""
    session = Session()
    with bench(response(question(1)), ANSWER, response(question(2))) as (adapter, provider):
        adapter.evaluate(ask(hosted=[server()]), session=session)
        approve(session, "mcpr_1", NewGrant(scope="session"))
        adapter.resume(ask(hosted=[server()]), session=session)

        evil = server("https://evil.example/mcp")
        waiting = adapter.evaluate(ask(hosted=[evil]), session=session)

    assert waiting.status == "waiting"
    assert len(provider.requests) == 3
    assert "config.server_url: https://good.example/mcp -> https://evil.example/mcp" in (
        only(waiting.pending).changes
    )


@pytest.mark.parametrize(
    "changed",
    [
        AutoContainer(),
        AutoContainer(network_policy=NetworkPolicy(("evil.example",))),
        ExistingContainer("c1", memory_limit="4g"),
    ],
)
def test_a_turn_does_not_go_on_with_other_options_of_a_hosted_tool(changed: Container) -> None:
    """An existing container may be renewed; what the provider may do with it stays the same."""
    session = Session()
    first = code_interpreter_tool(CodeInterpreterConfig(ExistingContainer("c1")))
    other = code_interpreter_tool(CodeInterpreterConfig(changed))
    with bench(response(question(1)), ANSWER) as (adapter, _):
        adapter.evaluate(ask(hosted=[server(), first]), session=session)
        approve(session, "mcpr_1")

        with pytest.raises(InvalidState, match="not what it was"):
            adapter.resume(ask(hosted=[server(), other]), session=session)


@pytest.mark.parametrize(
    "changed",
    [
        server("https://evil.example/mcp"),
        server(authorization="another-token"),
        server(headers={"X-Tenant": "other"}),
        server(allowed_tools=("search", "delete")),
        server(allowed_tools=ToolFilter(read_only=True)),
        server(require_approval="never"),
    ],
)
def test_an_approval_for_one_server_is_not_sent_for_another(changed: Any) -> None:
    """Hosted tools 1 (s18): a turn goes on only with the same server and options."""
    session = Session()
    with bench(response(question(1)), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(hosted=[server()]), session=session)
        approve(session, "mcpr_1")

        with pytest.raises(InvalidState, match="not what it was"):
            adapter.resume(ask(hosted=[changed]), session=session)

    assert len(provider.requests) == 1


def test_a_token_of_the_same_account_may_be_refreshed() -> None:
    """Tokens expire while people think: with an account, decisions are bound to that."""
    session = Session()
    old, new = (server(authorization=token, account="ann") for token in ("token-1", "token-2"))
    with bench(response(question(1)), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(hosted=[old]), session=session)
        approve(session, "mcpr_1")
        done = adapter.resume(ask(hosted=[new]), session=session)

    assert done.status == "completed"
    assert provider.bodies[1]["tools"][0]["authorization"] == "token-2"
    assert "account" not in provider.bodies[1]["tools"][0]
    for other in (
        server(authorization="token-2", account="bob"),
        server(authorization="token-2"),
        server(account="ann"),
        server(authorization="token-2", account="ann", headers={"X-A": "1"}),
    ):
        assert prepare(other).ref.digest != prepare(old).ref.digest


def test_credentials_are_in_no_record() -> None:
    """The parts of an identity are kept with requests and grants; what is secret is not in them."""
    session = Session()
    secret = server(
        "https://good.example/mcp/k3y5k3y5k3y5k3y5k3y5?key=hunter2-query",
        authorization="hunter2-token",
        headers={"X-Key": "hunter2-header"},
    )
    with bench(response(question(1))) as (adapter, _):
        waiting = adapter.evaluate(ask(hosted=[secret]), session=session)
        approve(session, "mcpr_1", NewGrant("everyone", unlimited=True))

    request = only(waiting.pending)
    shown = request.tool_parts["config.server_url"]
    assert shown.startswith("https://good.example/mcp/...?... [")
    (grant,) = session.approvals.grants()
    kept = repr((request, grant, [record.payload for record in session.records()]))
    assert "hunter2" not in kept
    assert "k3y5" not in kept


def test_toolkits_are_bound_to_their_root(tmp_path: Path) -> None:
    """Memory and patches under another directory are other tools."""
    for make in (apply_patch_tool, memory_tool):
        first, second = prepare(make(tmp_path / "a")), prepare(make(tmp_path / "b"))
        assert first.ref.digest != second.ref.digest
        assert first.ref == prepare(make(tmp_path / "a")).ref
