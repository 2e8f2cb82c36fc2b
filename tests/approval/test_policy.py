"""Deny beats ask beats allow, in any order, and nothing but a named allow lifts a tool's gate."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.approval.samples import subject, tool_ref
from toolcrib.approval.pattern import Equals, Glob, Not, OneOf
from toolcrib.approval.policy import Policy, Unmatched, default_verdict
from toolcrib.approval.rule import RESERVED_IDS, Effect, Rule, Subject, Verdict
from toolcrib.errors import InvalidPolicy
from toolcrib.tools.identity import Place

STRENGTH: dict[Effect, int] = {"allow": 0, "ask": 1, "deny": 2}

names = st.sampled_from(["read_file", "write_file", "delete"])
sources = st.sampled_from(["python", "host"])
places: st.SearchStrategy[Place] = st.sampled_from(["local", "sandbox"])
values = st.sampled_from(["a", "b", "a/../b", True, 1])


def effects() -> st.SearchStrategy[Effect]:
    return st.sampled_from(["allow", "ask", "deny"])


@st.composite
def any_rule(draw: st.DrawFn) -> Rule:
    patterns = st.sampled_from([Equals("a"), Glob("*"), OneOf(("a", 1)), Not(Equals("b"))])
    return Rule(
        effect=draw(effects()),
        tool=draw(names | st.sampled_from(["*", "read_*"])),
        source=draw(sources | st.just("*")),
        place=draw(places | st.none()),
        arguments=draw(st.dictionaries(st.sampled_from(["/x", "/y"]), patterns, max_size=2)),
    )


@st.composite
def any_subject(draw: st.DrawFn) -> Subject:
    return Subject(
        tool_ref(draw(names), source=draw(sources), place=draw(places)),
        draw(st.dictionaries(st.sampled_from(["x", "y"]), values)),
        is_read_only=draw(st.booleans()),
        requires_approval=draw(st.booleans()),
    )


@st.composite
def matching_rule(draw: st.DrawFn, effect: Effect, judged: Subject) -> Rule:
    return Rule(
        effect=effect,
        tool=draw(st.sampled_from(["*", judged.tool.name])),
        source=draw(st.sampled_from(["*", judged.tool.source])),
        place=draw(st.sampled_from([None, judged.tool.place])),
    )


many_rules = st.lists(any_rule(), max_size=6)
unmatched_values: st.SearchStrategy[Unmatched] = st.sampled_from(["risk", "allow", "ask", "deny"])


@given(many_rules, unmatched_values, any_subject(), st.data())
def test_a_matching_deny_always_denies(
    rules: list[Rule], unmatched: Unmatched, judged: Subject, data: st.DataObject
) -> None:
    """Whatever else a policy says, one deny that matches is enough."""
    deny = data.draw(matching_rule("deny", judged))
    at = data.draw(st.integers(0, len(rules)))

    policy = Policy((*rules[:at], deny, *rules[at:]), unmatched)

    assert policy.judge(judged).effect == "deny"


@given(many_rules, unmatched_values, any_subject(), st.data())
def test_an_allow_never_weakens_a_stronger_match(
    rules: list[Rule], unmatched: Unmatched, judged: Subject, data: st.DataObject
) -> None:
    """An added allow rule does not turn a matched ask or deny into anything weaker."""
    effect: Effect = data.draw(st.sampled_from(["ask", "deny"]))
    stronger = data.draw(matching_rule(effect, judged))
    before = Policy((*rules, stronger), unmatched).judge(judged)
    allow = data.draw(matching_rule("allow", judged))

    after = Policy((allow, *rules, stronger), unmatched).judge(judged)

    assert after.effect == before.effect != "allow"


@given(many_rules, unmatched_values, any_subject(), st.randoms(use_true_random=False))
def test_the_order_of_rules_does_not_matter(
    rules: list[Rule], unmatched: Unmatched, judged: Subject, random: Any
) -> None:
    """A policy is a set of rules: moving one changes no decision."""
    shuffled = list(rules)
    random.shuffle(shuffled)

    verdicts = [Policy(tuple(each), unmatched).judge(judged) for each in (rules, shuffled)]

    assert verdicts[0].effect == verdicts[1].effect


@given(many_rules, any_subject())
def test_the_strongest_match_decides(rules: list[Rule], judged: Subject) -> None:
    """The effect is that of the strongest matching rule, or stronger where the tool has a gate."""
    matched: list[Effect] = [rule.effect for rule in rules if rule.first_miss(judged) is None]
    verdict = Policy(tuple(rules)).judge(judged)

    strongest = max((STRENGTH[effect] for effect in matched), default=0)
    assert STRENGTH[verdict.effect] >= strongest
    if strongest > 0:
        assert STRENGTH[verdict.effect] == strongest


@given(many_rules, any_subject())
def test_a_risky_call_that_nothing_matches_is_not_run(rules: list[Rule], judged: Subject) -> None:
    """By default an unmatched call runs only if its tool reads and has no gate."""
    verdict = Policy(tuple(rules)).judge(judged)

    if verdict.rule == "unmatched" and verdict.effect == "allow":
        assert judged.is_read_only
        assert not judged.requires_approval


@given(many_rules, unmatched_values, any_subject())
def test_explaining_and_judging_agree(
    rules: list[Rule], unmatched: Unmatched, judged: Subject
) -> None:
    """An explanation shows the verdict that counts, and marks exactly the rules that match."""
    policy = Policy(tuple(rules), unmatched)
    explanation = policy.explain(judged)

    assert explanation.verdict == policy.judge(judged)
    assert [finding.is_match for finding in explanation.findings] == [
        rule.first_miss(judged) is None for rule in policy.rules
    ]


@pytest.mark.parametrize(
    ("unmatched", "is_read_only", "requires_approval", "effect", "rule"),
    [
        ("risk", True, False, "allow", "unmatched"),
        ("risk", True, True, "ask", "requires_approval"),
        ("risk", False, False, "ask", "unmatched"),
        ("risk", False, True, "ask", "requires_approval"),
        ("allow", False, False, "allow", "unmatched"),
        ("allow", False, True, "ask", "requires_approval"),
        ("ask", True, False, "ask", "unmatched"),
        ("ask", True, True, "ask", "unmatched"),
        ("deny", True, False, "deny", "unmatched"),
        ("deny", True, True, "deny", "unmatched"),
    ],
)
def test_what_no_rule_matches(
    unmatched: Unmatched, is_read_only: bool, requires_approval: bool, effect: Effect, rule: str
) -> None:
    """`unmatched` decides, and never lifts a tool's own gate."""
    judged = subject(is_read_only=is_read_only, requires_approval=requires_approval)

    verdict = Policy(unmatched=unmatched).judge(judged)

    assert (verdict.effect, verdict.rule) == (effect, rule)


@pytest.mark.parametrize(
    ("rules", "effect", "rule"),
    [
        ([Rule("allow", "write_file", id="named")], "allow", "named"),
        ([Rule("allow", "*", id="all")], "ask", "requires_approval"),
        ([Rule("allow", "write_*", id="some")], "ask", "requires_approval"),
        ([Rule("allow", "write_fil?", id="some")], "ask", "requires_approval"),
        ([Rule("allow", id="all"), Rule("allow", "write_file", id="named")], "allow", "named"),
        ([Rule("allow", "write_file", id="named"), Rule("ask", id="all")], "ask", "all"),
    ],
)
def test_only_an_allow_that_names_the_tool_lifts_its_gate(
    rules: Sequence[Rule], effect: Effect, rule: str
) -> None:
    """A wildcard must not switch off a gate that its author never saw."""
    verdict = Policy(tuple(rules)).judge(subject(requires_approval=True))

    assert (verdict.effect, verdict.rule) == (effect, rule)


def test_a_shadowed_gate_is_announced() -> None:
    """Where a wildcard allow does not count, the reason names the rule and the way out."""
    verdict = Policy((Rule("allow", "*", id="all"),)).judge(subject(requires_approval=True))

    assert 'Rule "all" allows it by a wildcard' in verdict.reason
    assert "a rule that names the tool" in verdict.reason


@pytest.mark.parametrize(
    ("rule", "miss"),
    [
        (Rule("allow", "write_file", "python", "local", {"/path": Equals("a")}), None),
        (Rule("allow", "read_file"), "tool"),
        (Rule("allow", source="host"), "source"),
        (Rule("allow", place="sandbox"), "place"),
        (Rule("allow", arguments={"/path": Equals("a"), "/mode": Equals("w")}), "/mode"),
    ],
)
def test_a_rule_matches_when_all_its_conditions_do(rule: Rule, miss: str | None) -> None:
    """Tool, source, place and every argument count; the first that fails is named."""
    assert rule.first_miss(subject({"path": "a"})) == miss


@pytest.mark.parametrize(("effect", "counts"), [("allow", False), ("ask", True), ("deny", True)])
def test_a_path_that_hides_where_it_leads_counts_against_the_call(
    effect: Effect, counts: bool
) -> None:
    """`/safe/../etc` is denied by a rule on `/etc` and allowed by no rule at all."""
    judged = subject({"path": "/safe/../etc/passwd"})
    for glob in ("/etc/**", "**"):
        rule = Rule(effect, arguments={"/path": Glob(glob)})

        assert (rule.first_miss(judged) is None) is counts


def test_the_shortest_deadline_counts() -> None:
    """Of several matching ask rules the smallest deadline holds, else the policy's own."""
    ask = Rule("ask", "write_file")
    rules = (ask, Rule("ask", deadline_seconds=60), Rule("ask", deadline_seconds=30))
    other = Rule("ask", "other", deadline_seconds=1)

    assert Policy((*rules, other), deadline_seconds=10).judge(subject()).deadline_seconds == 30
    assert Policy((ask, other), deadline_seconds=10).judge(subject()).deadline_seconds == 10
    assert Policy((ask,)).judge(subject()).deadline_seconds is None


def test_an_unmatched_ask_has_the_policys_deadline() -> None:
    """Every question the policy asks can expire, and only questions can."""
    assert Policy(deadline_seconds=10).judge(subject()).deadline_seconds == 10
    reads = subject(is_read_only=True)
    assert Policy(deadline_seconds=10).judge(reads).deadline_seconds is None


def test_a_rules_reason_is_the_verdicts() -> None:
    """What the author of a rule wrote is what approver and model read."""
    named = Policy((Rule("deny", reason="Not on Fridays."),)).judge(subject())
    plain = Policy((Rule("deny"),)).judge(subject())

    assert named.reason == "Not on Fridays."
    assert plain.reason == 'Rule "rule 1" denies this call.'


def test_rules_without_an_id_are_numbered() -> None:
    """Every verdict can name its rule."""
    policy = Policy((Rule("allow"), Rule("deny", id="mine"), Rule("ask")))

    assert [rule.id for rule in policy.rules] == ["rule 1", "mine", "rule 3"]


def bad_policies() -> list[Any]:
    return [
        *[lambda rule_id=rule_id: Rule("allow", id=rule_id) for rule_id in sorted(RESERVED_IDS)],
        lambda: Policy((Rule("allow", id="a"), Rule("deny", id="a"))),
        lambda: Policy((Rule("allow", id="rule 2"), Rule("deny"))),
        lambda: Policy(unmatched="maybe"),  # pyright: ignore[reportArgumentType]
        lambda: Policy(deadline_seconds=0),
        lambda: Rule("perhaps"),  # pyright: ignore[reportArgumentType]
        lambda: Rule("allow", "fs/read"),
        lambda: Rule("allow", ""),
        lambda: Rule("allow", source=""),
        lambda: Rule("ask", deadline_seconds=-1),
        lambda: Rule("ask", deadline_seconds=float("inf")),
        lambda: Rule("deny", deadline_seconds=5),
        lambda: Rule("deny", arguments={"path": Equals(1)}),
    ]


@pytest.mark.parametrize("make", bad_policies())
def test_a_policy_that_cannot_mean_what_it_says_is_refused(make: Any) -> None:
    """A rule that could never apply, or be told apart, is an error when it is made."""
    with pytest.raises(InvalidPolicy):
        make()


def test_a_rule_from_a_file_says_where_it_came_from() -> None:
    """A fault in a rule names the file and line that the rule was given."""
    with pytest.raises(InvalidPolicy, match=r"^p\.yaml:7: "):
        Rule("allow", "fs/read", file="p.yaml", line=7)


def test_later_changes_of_the_given_arguments_do_not_reach_the_rule() -> None:
    """A rule keeps the patterns it was made with."""
    given_patterns: dict[str, Any] = {"/path": Equals("a")}
    rule = Rule("deny", arguments=given_patterns)
    given_patterns["/path"] = Equals("b")

    assert rule.first_miss(subject({"path": "a"})) is None


def test_without_a_policy_only_the_tools_own_gate_asks() -> None:
    """`default_verdict` is what holds where nobody wrote a policy."""
    assert default_verdict(subject(requires_approval=True)) == Verdict(
        "ask", "requires_approval", "The tool requires approval."
    )
    assert default_verdict(subject()).effect == "allow"
