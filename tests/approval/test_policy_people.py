"""Rules about people: who asks, and who has to approve."""

from dataclasses import replace
from typing import Any

import pytest

from tests.approval.samples import subject
from toolcrib.approval.caller import Caller
from toolcrib.approval.policy import Policy
from toolcrib.approval.policy_file import parse_policy
from toolcrib.approval.policy_lint import cautions
from toolcrib.approval.quorum import Quorum
from toolcrib.approval.rule import Effect, Rule, Subject
from toolcrib.errors import InvalidPolicy


def asked_by(principal: str | None = None, *groups: str) -> Subject:
    return replace(subject(), caller=Caller(principal, groups=frozenset(groups)))


def effect_of(rule: Rule, call: Subject, unmatched: Any = "deny") -> Effect:
    return Policy((rule,), unmatched=unmatched).judge(call).effect


@pytest.mark.parametrize(
    ("globs", "principal", "is_match"),
    [
        (("ann",), "ann", True),
        (("ann",), "anna", False),
        (("bob", "an*"), "anna", True),
        (("*",), "ann", True),
        (("ann",), None, False),
        (("*",), None, False),
    ],
)
def test_an_allow_rule_names_who_it_is_for(
    globs: tuple[str, ...], principal: str | None, is_match: bool
) -> None:
    """A rule for some is no rule for others, and never for a call that nobody is named for."""
    rule = Rule("allow", "write_file", principal=globs)

    assert effect_of(rule, asked_by(principal)) == ("allow" if is_match else "deny")


@pytest.mark.parametrize("effect", ["deny", "ask"])
@pytest.mark.parametrize(
    ("globs", "principal", "is_match"),
    [(("ann",), "ann", True), (("ann",), None, False), (("*",), None, True), (("*",), "x", True)],
)
def test_nobody_escapes_a_rule_for_everybody(
    effect: Effect, globs: tuple[str, ...], principal: str | None, is_match: bool
) -> None:
    """A deny or ask rule for `*` also means the calls that nobody is named for."""
    rule = Rule(effect, principal=globs)

    assert effect_of(rule, asked_by(principal), "allow") == (effect if is_match else "allow")


def test_a_group_is_one_of_those_of_the_asker() -> None:
    """One match is enough; who is in no group is let through by no group."""
    allow = Rule("allow", "write_file", group=("fin*", "board"))

    assert effect_of(allow, asked_by("ann", "desk", "finance")) == "allow"
    assert effect_of(allow, asked_by("ann", "desk")) == "deny"
    assert effect_of(allow, asked_by("ann")) == "deny"
    assert effect_of(Rule("allow", "write_file", group=("*",)), asked_by("ann")) == "deny"
    assert effect_of(Rule("deny", group=("*",)), asked_by("ann"), "allow") == "deny"


def test_every_condition_counts() -> None:
    """Principal and group together are both."""
    rule = Rule("allow", "write_file", principal=("ann",), group=("finance",))

    assert effect_of(rule, asked_by("ann", "finance")) == "allow"
    assert effect_of(rule, asked_by("ann")) == "deny"
    assert effect_of(rule, asked_by("bob", "finance")) == "deny"


POLICY = """
version: 1
rules:
  - id: small
    ask: pay
    approvers: finance
  - id: large
    ask: pay
    principal: [ann, "b*"]
    group: desk
    approvers: {groups: [board, finance], count: 2}
"""


def test_a_file_says_who_asks_and_who_approves() -> None:
    """The YAML form is the Python form."""
    small, large = parse_policy(POLICY).rules

    assert (small.approvers, small.principal, small.group) == (Quorum(1, ("finance",)), (), ())
    assert large.approvers == Quorum(2, ("board", "finance"))
    assert (large.principal, large.group) == (("ann", "b*"), ("desk",))


@pytest.mark.parametrize(
    ("written", "quorum"),
    [
        ("2", Quorum(2)),
        ("finance", Quorum(groups=("finance",))),
        ("[finance, board]", Quorum(groups=("board", "finance"))),
        ("{count: 3}", Quorum(3)),
        ("{groups: finance}", Quorum(groups=("finance",))),
    ],
)
def test_approvers_have_plain_forms(written: str, quorum: Quorum) -> None:
    """A number is people, a text is a group."""
    (rule,) = parse_policy(f"version: 1\nrules:\n  - ask: pay\n    approvers: {written}\n").rules

    assert rule.approvers == quorum


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("ask: pay\n    approvers: 0", "from 1 to 20"),
        ("ask: pay\n    approvers: 1.5", "number of people"),
        ("ask: pay\n    approvers: {groups: []}", "empty"),
        ("ask: pay\n    approvers: {people: 2}", "unknown key 'people'"),
        ("deny: pay\n    approvers: 2", "approvers mean nothing for deny"),
        ("allow: pay\n    principal: 5", "principal is not text"),
        ("allow: pay\n    group: []", "list of group is empty"),
        ("allow: pay\n    principle: ann", "did you mean 'principal'"),
    ],
)
def test_a_fault_names_its_line(rule: str, words: str) -> None:
    """What is wrong, where, and what to write."""
    with pytest.raises(InvalidPolicy, match=words) as raised:
        parse_policy(f"version: 1\nrules:\n  - {rule}\n", file="p.yaml")

    assert str(raised.value).startswith("p.yaml:")


def test_each_rule_that_asks_is_obeyed() -> None:
    """Who has to approve by one rule is not spared by another that asks for less."""
    call = replace(asked_by("ann", "desk"), tool=replace(subject().tool, name="pay"))
    verdict = parse_policy(POLICY).judge(call)

    assert verdict.effect == "ask"
    assert set(verdict.approvers) == {Quorum(1, ("finance",)), Quorum(2, ("board", "finance"))}


def test_an_explanation_says_who_was_meant() -> None:
    """Why a rule about people did not match, and who has to approve."""
    call = replace(asked_by("eve", "ops"), tool=replace(subject().tool, name="pay"))
    text = parse_policy(POLICY).explain(call).text()

    assert "approvers: 1 of finance" in text
    assert "the principal is eve, not ann or b*" in text
    nobody = replace(call, caller=Caller())
    assert "the principal is not named" in parse_policy(POLICY).explain(nobody).text()


def test_a_rule_for_some_does_not_shadow_a_rule_for_all() -> None:
    """The warning about rules that never count knows that people differ."""
    allow = Rule("allow", "pay", id="all")

    assert cautions(Policy((allow, Rule("deny", "pay", id="some", principal=("eve",))))) == ()
    assert cautions(Policy((allow, Rule("deny", "pay", id="every"))))
