"""How far a session trusts what providers run: policy by place, kind and provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, message, response
from toolcrib import Approve, NativeTool, Policy, Rule, Session, Tool, ToolInvoked
from toolcrib.adapters.openai import Governance
from toolcrib.approval import CallbackApprover, Subject, parse_policy
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.approval.pattern import Equals
from toolcrib.approval.policy_lint import cautions
from toolcrib.cli.app import app
from toolcrib.errors import InvalidPolicy
from toolcrib.ledger.prompt_events import ToolWithheld
from toolcrib.toolkits.apply_patch import apply_patch_tool
from toolcrib.tools import OpenAICodeInterpreterTool, ProviderTool
from toolcrib.tools.code_interpreter import CodeInterpreterResult, code_interpreter_tool
from toolcrib.tools.identity import ToolRef
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.provider_tools import kind_of, provider_of
from toolcrib.tools.shell import ShellParams, ShellResult, handler_shell_tool
from toolcrib.tools.web_search import web_search_tool

SEARCH = web_search_tool(name="cached_search")
PYTHON = OpenAICodeInterpreterTool(name="openai_python")
DOCS = mcp_tool(McpConfig(server_label="docs", server_url="https://docs.example.org"))
QUESTION: Json = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "docs",
    "name": "delete",
    "arguments": "{}",
}


def native() -> NativeTool[None, CodeInterpreterResult]:
    return NativeTool[None, CodeInterpreterResult](name="code_interpreter", description="Run.")


def offered(policy: Policy, *tools: Any) -> tuple[list[str], list[str]]:
    """The types that a request offers under a policy, and the names of what is withheld."""
    session = Session()
    with bench(response(message("Fine."))) as (adapter, provider):
        adapter.evaluate(ask(hosted=tools), session=session, governance=Governance(policy=policy))
    withheld = [event.tool.name for event in happened(session, ToolWithheld)]
    return [entry["type"] for entry in provider.bodies[0].get("tools", ())], withheld


@pytest.mark.parametrize(
    ("rule", "types", "withheld"),
    [
        (Rule("deny", place="provider"), [], ["cached_search", "openai_python"]),
        (Rule("deny", kind="web_search"), ["code_interpreter"], ["cached_search"]),
        (Rule("deny", kind="code_*"), ["web_search"], ["openai_python"]),
        (Rule("deny", provider="openai"), [], ["cached_search", "openai_python"]),
        (Rule("deny", provider="anthropic"), ["web_search", "code_interpreter"], []),
        (Rule("ask", kind="web_search"), ["code_interpreter"], ["cached_search"]),
        (Rule("deny", kind="web_search", provider="xai"), ["web_search", "code_interpreter"], []),
    ],
    ids=["place", "kind", "kinds", "provider", "other_provider", "ask", "both"],
)
def test_what_a_provider_runs_is_trusted_by_place_kind_and_provider(
    rule: Rule, types: list[str], withheld: list[str]
) -> None:
    """N28: the rule that means its kind holds, whatever a tool is called; that is recorded."""
    policy = Policy((rule,), unmatched="allow")

    assert offered(policy, SEARCH, PYTHON) == (types, withheld)


def test_trust_can_be_given_by_kind() -> None:
    """N28: the usual way round: nothing runs elsewhere but what is listed."""
    policy = Policy((Rule("allow", kind="web_search", provider="openai"),), unmatched="deny")

    assert offered(policy, SEARCH, native(), PYTHON) == (
        ["web_search"],
        ["code_interpreter", "openai_python"],
    )


@pytest.mark.parametrize("tool", [code_interpreter_tool(name="a"), native(), PYTHON])
def test_every_way_to_declare_a_capability_is_of_one_kind(tool: Any) -> None:
    """N28: a rule cannot be got around by declaring the same thing differently."""
    assert kind_of(tool) == "code_interpreter"
    assert offered(Policy((Rule("deny", kind="code_interpreter"),), "allow"), tool)[0] == []


def test_what_the_provider_defines_and_we_run_has_kind_and_provider_too(tmp_path: Path) -> None:
    """N28: a shell is a shell, wherever its commands run; a plain tool is of no kind."""

    def run(params: Any) -> Any:
        raise AssertionError("it must not run")

    shell = handler_shell_tool(run, name="terminal")
    patch = apply_patch_tool(tmp_path)
    own = ProviderTool[None, str, None](
        name="memory", description="Recall.", provider="anthropic", config=None
    )

    assert (kind_of(shell), provider_of(shell)) == ("shell", "openai")
    assert (kind_of(patch), provider_of(patch)) == ("apply_patch", "openai")
    assert (kind_of(own), provider_of(own)) == ("memory", "anthropic")
    plain = Tool[None, str](name="shell", description="Mine.", handler=lambda _: "")
    assert (kind_of(plain), provider_of(plain)) == (None, None)


def test_a_denied_kind_is_denied_also_where_we_run_it() -> None:
    """N28: the call is refused like any other, and its handler never runs."""
    ran: list[ShellParams] = []

    def run(params: ShellParams) -> ShellResult:
        ran.append(params)
        return ShellResult()

    shell = handler_shell_tool(run, name="terminal")
    command: Json = {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "call_1",
        "status": "completed",
        "action": {"commands": ["rm -r /"]},
    }
    session = Session()
    policy = Policy((Rule("deny", kind="shell"), Rule("allow", tool="terminal")))
    with bench(response(command), response(message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(shell), session=session, governance=Governance(policy=policy))

    (event,) = happened(session, ToolInvoked)
    assert event.failure is not None
    assert (ran, event.failure.kind) == ([], "not_permitted")


def test_a_rule_about_servers_holds_for_each_of_their_questions() -> None:
    """N28: a server that stops before each call is of its kind there too, so arguments count."""
    asked: list[ApprovalRequest] = []

    def yes(request: ApprovalRequest) -> Approve:
        asked.append(request)
        return Approve()

    policy = Policy(
        (Rule("deny", kind="mcp", arguments={"/tool": Equals("delete")}),), unmatched="allow"
    )
    governance = Governance(policy=policy, approver=CallbackApprover(yes, name="jo"))
    with bench(response(QUESTION), response(message("Fine."))) as (adapter, provider):
        adapter.evaluate(ask(hosted=[DOCS]), governance=governance)

    assert [entry["type"] for entry in provider.bodies[0]["tools"]] == ["mcp"]
    assert provider.bodies[1]["input"][0]["approve"] is False
    assert asked == []


@pytest.mark.parametrize("rule", [Rule("ask"), Rule("ask", kind="mcp"), Rule("ask", tool="docs")])
def test_a_server_that_is_asked_about_is_offered_where_somebody_can_be_asked(rule: Rule) -> None:
    """N28: it stops before each call, so asking about its kind withholds nothing."""
    assert offered(Policy((rule,)), DOCS) == (["mcp"], [])


SUBJECT = Subject(
    ToolRef("cached_search", "python", "1.0.0", "", "provider"),
    {},
    kind="web_search",
    provider="openai",
)
OURS = Subject(ToolRef("search", "python", "1.0.0", "", "local"), {})


def test_a_policy_file_says_it_with_the_same_words() -> None:
    """N28: operators write the level of trust down; an explanation names what did not match."""
    policy = parse_policy(
        """
version: 1
unmatched: deny
rules:
  - id: look things up
    allow: "*"
    place: provider
    kind: web_*
    provider: openai
  - id: no shells
    deny: "*"
    kind: shell
"""
    )

    assert policy.judge(SUBJECT).rule == "look things up"
    assert policy.judge(OURS).rule == "unmatched"
    told = policy.explain(SUBJECT).text()
    assert "no match  deny no shells (policy:10): the kind is web_search, not shell" in told
    told = policy.explain(Subject(SUBJECT.tool, {}, kind="web_search")).text()
    assert "the provider is none, not openai" in told


def test_the_command_line_explains_it_too(tmp_path: Path) -> None:
    """N28: an operator tries a level of trust out before a session runs under it."""
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\nrules:\n  - deny: '*'\n    kind: shell\n    provider: openai\n")
    ask_about = ["policy", "explain", str(file), "--tool", "terminal", "--kind", "shell"]

    denied = CliRunner().invoke(app, [*ask_about, "--provider", "openai"])
    asked = CliRunner().invoke(app, [*ask_about, "--provider", "xai"])

    assert denied.stdout.startswith("deny: python/terminal")
    assert "the provider is xai, not openai" in asked.stdout


def test_a_rule_that_names_a_kind_is_not_about_tools_without_one() -> None:
    """N28: `*` is every tool; anything narrower is about providers' capabilities only."""
    assert Policy((Rule("deny", kind="*"),)).judge(OURS).effect == "deny"
    assert Policy((Rule("deny", kind="?*"),), "allow").judge(OURS).effect == "allow"
    assert Policy((Rule("deny", provider="?*"),), "allow").judge(OURS).effect == "allow"


@pytest.mark.parametrize("condition", ["kind", "provider"])
def test_an_empty_condition_is_refused(condition: str) -> None:
    """A condition that nothing meets would make a deny rule deny nothing."""
    options: dict[str, Any] = {condition: ""}

    with pytest.raises(InvalidPolicy, match=f"an empty {condition} matches no tool"):
        Rule("deny", **options)


def test_a_rule_for_one_kind_overshadows_no_other() -> None:
    """`policy check` warns only where a rule really says no to all of another's calls."""
    allow = Rule("allow", tool="cached_search")

    assert cautions(Policy((allow, Rule("deny", kind="shell")))) == ()
    assert cautions(Policy((allow, Rule("deny", provider="xai")))) == ()
    assert len(cautions(Policy((allow, Rule("deny"))))) == 1
