"""`policy check` warns about rules that are valid and still surprise."""

from typing import Any

import pytest
from pydantic import BaseModel
from pydantic import Field as PydanticField

from toolcrib.approval.pattern import Equals, Glob, Not, Pattern, Regex
from toolcrib.approval.policy import Policy
from toolcrib.approval.policy_lint import ToolArguments, cautions, unknown_arguments
from toolcrib.approval.rule import Effect, Rule
from toolcrib.tools.argument_names import ArgumentNames
from toolcrib.tools.params import params_of_type


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


class Filed(BaseModel):
    path: str = PydanticField(alias="file")
    deep: "list[Filed]" = []


OPEN_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def facts(params_type: Any = Filed) -> ToolArguments:
    params = params_of_type("read", params_type)
    names = params.names or ArgumentNames(params.schema, {})
    return ToolArguments("read", "python", "local", names)


def unknown_in(pointer: str, effect: Any = "deny", **conditions: Any) -> list[tuple[str, bool]]:
    rule = Rule(effect, "read", arguments={pointer: Equals("x")}, id="r", **conditions)
    unknown = unknown_arguments(Policy((rule,)), [facts()])
    return [(each.caution.message, each.is_error) for each in unknown]


class TestUnknownArguments:
    @pytest.mark.parametrize(
        "pointer", ["/file", "/path", "", "/deep/*/file", "/deep/0/path", "/deep/*/deep/1/path"]
    )
    def test_an_argument_under_any_of_its_names_is_known(self, pointer: str) -> None:
        """The key in the schema and the name of the field are both right, at any depth."""
        assert unknown_in(pointer) == []

    @pytest.mark.parametrize("effect", ["deny", "ask"])
    def test_a_rule_that_protects_nothing_is_an_error(self, effect: Any) -> None:
        """Found afterwards: a misspelt argument was silent. The message says what was meant."""
        assert unknown_in("/pth", effect) == [
            ("'read' has no argument at /pth; did you mean 'path'?", True)
        ]
        assert unknown_in("/deep/*/fil", effect)[0][1]

    def test_a_rule_that_allows_less_than_it_seems_is_a_warning(self) -> None:
        """It opens nothing; somebody is asked instead."""
        assert [is_error for _, is_error in unknown_in("/pth", "allow")] == [False]

    def test_an_argument_that_could_be_sent_is_a_warning(self) -> None:
        """A schema that takes other keys lets the rule's argument be sent, undeclared."""
        tool = ToolArguments("read", "host", "local", ArgumentNames(OPEN_SCHEMA, {}))
        rule = Rule("deny", "read", arguments={"/force": Equals("x")})
        (unknown,) = unknown_arguments(Policy((rule,)), [tool])

        assert not unknown.is_error

    @pytest.mark.parametrize("conditions", [{"source": "mcp:*"}, {"place": "client"}])
    def test_rules_for_other_tools_of_that_name_are_left_alone(self, conditions: Any) -> None:
        """They may be about a tool that has the argument."""
        assert unknown_in("/pth", **conditions) == []

    def test_rules_with_wildcards_are_left_alone(self) -> None:
        """They are about many tools, some of which need not have the argument."""
        rule = Rule("deny", "r*", arguments={"/pth": Equals("x")})
        assert unknown_arguments(Policy((rule,)), [facts()]) == ()
