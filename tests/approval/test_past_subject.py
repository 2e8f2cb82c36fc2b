"""Past calls under two policies: what is told of them is what the real judge says, for certain."""

from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.approval.caller import Caller
from toolcrib.approval.past_subject import PastSubject, compare
from toolcrib.approval.pattern import Between, Equals, Glob, Not, OneOf, Pattern
from toolcrib.approval.policy import Policy
from toolcrib.approval.quorum import Quorum
from toolcrib.approval.rule import Effect, Rule, Subject, Verdict
from toolcrib.tools.identity import ToolRef
from toolcrib.tools.secrets import SECRET

REF = ToolRef("pay", "python", "", "", "local")
VALUES: tuple[Any, ...] = ("a", "b", 1, 5)

patterns: st.SearchStrategy[Pattern] = st.sampled_from(
    [Equals("a"), Equals(1), Glob("a*"), OneOf(("b", 5)), Between(min=2), Not(Equals("a"))]
)
pointers = st.sampled_from(["/x", "/y", "/list/*"])
effects: st.SearchStrategy[Effect] = st.sampled_from(["allow", "ask", "deny"])


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    effect = draw(effects)
    quorum = Quorum(2) if effect == "ask" and draw(st.booleans()) else None
    return Rule(
        effect,
        draw(st.sampled_from(["*", "pay", "p*", "other"])),
        principal=draw(st.sampled_from([(), ("ann",), ("*",)])),
        group=draw(st.sampled_from([(), ("finance",), ("*",)])),
        arguments=draw(st.dictionaries(pointers, patterns, max_size=2)),
        approvers=quorum,
    )


policies = st.builds(
    Policy,
    st.lists(rules(), max_size=4).map(tuple),
    st.sampled_from(["risk", "allow", "ask", "deny"]),
)


def terms(verdict: Verdict) -> tuple[object, ...]:
    return verdict.effect, frozenset(verdict.approvers), verdict.deadline_seconds


def call(
    arguments: dict[str, Any],
    groups: frozenset[str] = frozenset(),
    *,
    is_read_only: bool = False,
    requires_approval: bool = False,
) -> Subject:
    return Subject(
        REF,
        arguments,
        is_read_only=is_read_only,
        requires_approval=requires_approval,
        caller=Caller("ann", groups=groups),
    )


@given(policies, policies, st.sampled_from(VALUES), st.booleans(), st.booleans())
def test_a_call_of_which_all_is_known_is_judged_as_by_the_gate(
    before: Policy, after: Policy, x: Any, is_read_only: bool, requires_approval: bool
) -> None:
    """Nothing is in doubt, and both verdicts are those of `Policy.judge`."""
    subject = call(
        {"x": x, "list": ["a", x]}, is_read_only=is_read_only, requires_approval=requires_approval
    )

    verdicts = compare(before, after, PastSubject(subject))

    assert (verdicts.before, verdicts.after) == (before.judge(subject), after.judge(subject))
    assert verdicts.doubt is None
    assert verdicts.is_change == (terms(before.judge(subject)) != terms(after.judge(subject)))


@given(policies, policies, st.data())
def test_what_is_said_of_a_redacted_call_holds_whatever_was_hidden(
    before: Policy, after: Policy, data: st.DataObject
) -> None:
    """A change or no change is told only where every hidden value, group and property of the tool
    leads to it.
    """
    hides = data.draw(st.tuples(*[st.booleans()] * 4))
    hides_x, hides_element, hides_groups, hides_tool = hides
    y = data.draw(st.sampled_from(VALUES))
    shown = call(
        {"x": SECRET if hides_x else "a", "y": y, "list": [SECRET if hides_element else y]}
    )
    past = PastSubject(shown, has_groups=not hides_groups, has_tool=not hides_tool)

    verdicts = compare(before, after, past)

    group_sets = [frozenset[str](), frozenset({"finance"}), frozenset({"other"})]
    flags = list(product((False, True), repeat=2)) if hides_tool else [(False, False)]
    outcomes = {
        (terms(before.judge(real)), terms(after.judge(real)))
        for x in (VALUES if hides_x else ("a",))
        for hidden in (VALUES if hides_element else (y,))
        for groups in (group_sets if hides_groups else group_sets[:1])
        for is_read_only, requires_approval in flags
        for real in [
            call(
                {"x": x, "y": y, "list": [hidden]},
                groups,
                is_read_only=is_read_only,
                requires_approval=requires_approval,
            )
        ]
    }
    if verdicts.doubt is None and verdicts.is_change:
        assert len(outcomes) == 1
        assert all(old != new for old, new in outcomes)
    elif verdicts.doubt is None:
        assert all(old == new for old, new in outcomes)


@given(policies, st.sampled_from(VALUES))
def test_the_same_policy_changes_no_call_however_little_is_known(policy: Policy, y: Any) -> None:
    """A doubt about what both policies say alike is none: an unchanged draft has no unknowns."""
    past = PastSubject(
        call({"x": SECRET, "y": y}), has_arguments=False, has_groups=False, has_tool=False
    )

    verdicts = compare(policy, Policy(policy.rules, policy.unmatched), past)

    assert verdicts.doubt is None
    assert not verdicts.is_change


def test_each_doubt_names_what_is_not_known() -> None:
    """The reason says what is missing: nobody takes an unknown call for an unchanged one."""
    hidden = call({"x": SECRET, "auth": SECRET, f"{SECRET}": 1})
    about_x = Policy((Rule("deny", "pay", arguments={"/x": Equals("a")}),), "allow")
    inside = Policy((Rule("deny", "pay", arguments={"/auth/user": Equals("a")}),), "allow")
    for_group = Policy((Rule("deny", group=("finance",)),), "allow")
    none = Policy(unmatched="allow")

    assert compare(none, about_x, PastSubject(hidden)).doubt == "redacted"
    assert compare(none, inside, PastSubject(hidden)).doubt == "redacted"
    assert compare(none, about_x, PastSubject(call({}), has_arguments=False)).doubt == "arguments"
    assert compare(none, for_group, PastSubject(call({}), has_groups=False)).doubt == "group"
    assert compare(none, Policy(), PastSubject(call({}), has_tool=False)).doubt == "tool"
