"""`explain`: which rule would decide a call, without calling anything."""

from typing import Any

import pytest

from tests.calls.runs import kinds
from toolcrib import CallFailed, Executor, Hooks, Limits, Policy, Rule, Session, tool


@tool
async def erase(path: str) -> str:
    """Erase a file."""
    raise AssertionError("nothing runs")


@tool(requires_approval=True)
async def send(text: str) -> str:
    """Send a text."""
    raise AssertionError("nothing runs")


POLICY = Policy((Rule("deny", "erase", id="no erasing"), Rule("allow", "*", id="the rest")))


def test_the_deciding_rule_is_named() -> None:
    """An operator can ask what the policy makes of a call before it matters."""
    executor = Executor(Session(), [erase, send], policy=POLICY)

    explained = executor.explain("erase", {"path": "/a"})

    assert explained.tool == "python/erase"
    assert (explained.verdict.effect, explained.verdict.rule) == ("deny", "no erasing")
    assert {finding.rule for finding in explained.findings} == {"no erasing", "the rest"}


def test_without_a_policy_the_tools_own_rule_decides() -> None:
    """A tool that asks for approval needs no policy to do so."""
    executor = Executor(Session(), [erase, send])

    assert executor.explain("send", {"text": "hi"}).verdict.effect == "ask"
    assert executor.explain("erase", {"path": "/a"}).verdict.effect == "allow"


def test_the_sessions_list_counts() -> None:
    """T42: the list is read when it is asked, also by `explain`."""
    session = Session()
    executor = Executor(session, [erase])

    session.need_user_approve_tools.append("erase")

    assert executor.explain("erase", {"path": "/a"}).verdict.effect == "ask"


def test_nothing_happens() -> None:
    """Explaining runs no hook and no handler, records nothing and uses up no id."""

    async def hook(_: Any, __: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("nothing runs")

    session = Session()
    executor = Executor(session, [erase], policy=POLICY, hooks=Hooks(pre={"erase": hook}))

    executor.explain("erase", b'{"path":"/a"}')

    assert kinds(session) == ["session.opened"]
    assert session.calls_made == 0
    assert session.approvals.pending() == []


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("gone", None, "not_found"),
        ("erase", {"path": 5}, "invalid_arguments"),
        ("erase", "{", "invalid_arguments"),
        ("erase", {"path": "x" * 100}, "invalid_arguments"),
    ],
)
def test_a_call_that_would_fail_first_says_so(name: str, arguments: Any, kind: str) -> None:
    """What never gets as far as a decision has none: the failure is raised."""
    executor = Executor(Session(), [erase], limits=Limits(max_arguments_bytes=50))

    with pytest.raises(CallFailed) as raised:
        executor.explain(name, arguments)

    assert raised.value.failure.kind == kind
