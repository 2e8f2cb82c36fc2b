"""`policy check` warns about rules that are valid and still surprise."""

import pytest

from toolcrib.approval.pattern import Equals, Glob, Not, Pattern, Regex
from toolcrib.approval.policy import Policy
from toolcrib.approval.policy_lint import cautions
from toolcrib.approval.rule import Effect, Rule


def messages(*rules: Rule) -> list[str]:
    return [caution.message for caution in cautions(Policy(rules))]


@pytest.mark.parametrize("pointer", ["/command", "/cmd", "/sql", "/script", "/steps/*/command"])
@pytest.mark.parametrize("pattern", [Glob("ls*"), Glob("git log -n ?"), Not(Glob("rm *"))])
def test_a_glob_that_allows_command_lines_is_warned_about(pointer: str, pattern: Pattern) -> None:
    """`ls*` also allows `ls; rm -rf`, which a glob cannot see."""
    (message,) = messages(Rule("allow", "run", arguments={pointer: pattern}))

    assert "write one_of or regex" in message


@pytest.mark.parametrize(
    ("effect", "pointer", "pattern"),
    [
        ("deny", "/command", Glob("rm *")),
        ("ask", "/command", Glob("rm *")),
        ("allow", "/path", Glob("My Files/*")),
        ("allow", "/command", Glob("/usr/bin/env")),
        ("allow", "/command", Regex("git .*")),
        ("allow", "/command", Equals("ls *")),
    ],
)
def test_other_patterns_are_not_warned_about(
    effect: Effect, pointer: str, pattern: Pattern
) -> None:
    """A warning that is always there is never read."""
    assert messages(Rule(effect, "run", arguments={pointer: pattern})) == []


@pytest.mark.parametrize("glob", ["src/../*", "./src/*", "src/", "https://example.com/*", "a\\*"])
def test_an_allow_that_can_never_match_is_warned_about(glob: str) -> None:
    """A glob that only oddly spelled paths would match allows nothing."""
    (message,) = messages(Rule("allow", "read", arguments={"/path": Glob(glob)}))

    assert "allows nothing" in message
    assert messages(Rule("deny", "read", arguments={"/path": Glob(glob)})) == []


@pytest.mark.parametrize("glob", ["[ab].txt", "{a,b}.txt"])
def test_brackets_are_warned_about(glob: str) -> None:
    """Brackets mean something in other globs, and nothing here."""
    (message,) = messages(Rule("deny", "read", arguments={"/path": Glob(glob)}))

    assert "stand for themselves" in message


@pytest.mark.parametrize(
    "other", [Rule("deny", id="x"), Rule("ask", id="x"), Rule("deny", "read", id="x")]
)
def test_an_allow_that_never_counts_is_warned_about(other: Rule) -> None:
    """A rule that a stronger one always covers is announced, with the rule that does."""
    (message,) = messages(Rule("allow", "read"), other)

    assert 'rule "x"' in message


@pytest.mark.parametrize(
    "other",
    [
        Rule("allow"),
        Rule("deny", "write"),
        Rule("deny", source="host"),
        Rule("deny", place="sandbox"),
        Rule("deny", arguments={"/path": Equals("x")}),
    ],
)
def test_a_stronger_rule_with_conditions_hides_nothing(other: Rule) -> None:
    """An exception from an allow is ordinary use."""
    assert messages(Rule("allow", "read"), other) == []


def test_a_warning_names_its_rule_and_line() -> None:
    """The reader finds the rule in the file."""
    rule = Rule("allow", "run", arguments={"/cmd": Glob("*")}, id="shell", file="p.yaml", line=9)

    (caution,) = cautions(Policy((rule,)))

    assert (caution.rule, caution.line) == ("shell", 9)
