"""Policy files: what they mean, and that every fault names file, line and cure."""

from pathlib import Path

import pytest

from tests.approval.samples import subject, tool_ref
from toolcrib.approval.pattern import Between, Equals, Glob, Not, OneOf
from toolcrib.approval.policy import Policy
from toolcrib.approval.policy_file import load_policy, parse_policy
from toolcrib.approval.rule import Rule
from toolcrib.errors import InvalidPolicy

WHOLE = """\
version: 1
unmatched: deny
deadline: 1h
rules:
  - id: reads
    allow: [read_file, "list_*"]
    source: python
    arguments:
      /path: {glob: "src/**"}
  - deny: "*"
    reason: Not in the sandbox.
    place: sandbox
  - ask: pay
    deadline: 5m
    arguments:
      /currency: {one_of: [EUR, null, 1, true]}
      /amount: {min: 0, max: 99.5}
      /memo:
        not: "no"
      /yes: "yes"
"""


def test_a_file_becomes_a_policy() -> None:
    """Every key of the format ends up in the policy, with the line each rule stands at."""
    policy = parse_policy(WHOLE, file="p.yaml")

    paths = {"/path": Glob("src/**")}
    payments = {
        "/currency": OneOf(("EUR", None, 1, True)),
        "/amount": Between(min=0, max=99.5),
        "/memo": Not(Equals("no")),
        "/yes": Equals("yes"),
    }
    assert policy == Policy(
        rules=(
            Rule(
                "allow", "read_file", "python", None, paths, "reads: read_file",
                file="p.yaml", line=5,
            ),
            Rule("allow", "list_*", "python", None, paths, "reads: list_*", file="p.yaml", line=5),
            Rule(
                "deny", place="sandbox", id="rule 2", reason="Not in the sandbox.",
                file="p.yaml", line=10,
            ),
            Rule(
                "ask", "pay", arguments=payments, id="rule 3", deadline_seconds=300,
                file="p.yaml", line=13,
            ),
        ),
        unmatched="deny",
        deadline_seconds=3600,
    )  # fmt: skip


def test_a_policy_is_loaded_from_a_real_file(tmp_path: Path) -> None:
    """A file on disk decides, also with a byte order mark in front."""
    file = tmp_path / "policy.yaml"
    file.write_text(WHOLE, "utf-8-sig")

    policy = load_policy(file)

    read = tool_ref("read_file")
    assert policy.judge(subject({"path": "src/a.py"}, tool=read)).effect == "allow"
    assert policy.judge(subject({"path": "src/../a.py"}, tool=read)).effect == "deny"
    assert policy.rules[0].file == str(file)


def test_a_policy_without_rules_is_the_default_one() -> None:
    """Only the version must be there."""
    assert parse_policy("version: 1") == Policy()


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("", 1, "not written as lines of key: value"),
        ("- a\n", 1, "not written as lines of key: value"),
        ("\nrules: []\n", 2, "write version: 1"),
        ("version: 2\n", 1, "version 2 is unknown; write 1"),
        ("version: '1'\n", 1, "write 1"),
        ("version: true\n", 1, "write 1"),
        ("version: 1\nruels: []\n", 2, "did you mean 'rules'?"),
        ("version: 1\nzzz: []\n", 2, "write one of version, unmatched, deadline, rules"),
        ("version: 1\nversion: 1\n", 2, "duplicate key 'version'; remove one of the two"),
        ("version: 1\nunmatched: maybe\n", 2, "write one of risk, allow, ask, deny"),
        ("version: 1\nunmatched: []\n", 2, "write one of risk, allow, ask, deny"),
        ("version: 1\ndeadline: 1:30\n", 2, "put it in quotes"),
        ("version: 1\ndeadline: soon\n", 2, "30s, 5m, 1h, 7d"),
        ("version: 1\nrules: {}\n", 2, "start each rule with"),
        ("version: 1\nrules:\n", 2, "start each rule with"),
        ("version: 1\nrules:\n- allow\n", 3, "not written as lines of key: value"),
        ("version: 1\nrules:\n- id: a\n", 3, "this one has none"),
        ("version: 1\nrules:\n- allow: a\n  deny: b\n", 3, "this one has allow and deny"),
        ("version: 1\nrules:\n- allow: a\n  alow: b\n", 4, "did you mean 'allow'?"),
        ("version: 1\nrules:\n- allow: a\n  sources: b\n", 4, "did you mean 'source'?"),
        ("version: 1\nrules:\n- allow:\n", 3, "a tool is a name in text"),
        ("version: 1\nrules:\n- allow: []\n", 3, "the list of tools is empty"),
        ("version: 1\nrules:\n- allow:\n  - a\n  - 5\n", 5, "a tool is a name in text"),
        ("version: 1\nrules:\n- allow:\n  - a\n  - a\n", 5, "duplicate tool"),
        ("version: 1\nrules:\n- deny: fs/write\n", 3, "the source goes under source"),
        ("version: 1\nrules:\n- deny: *\n", 3, "in quotes"),
        ("version: 1\nrules:\n- deny: *write\n", 3, "in quotes"),
        ("version: 1\nrules:\n- deny: a\n  id: default\n", 4, "'default' is taken"),
        ("version: 1\nrules:\n- deny: a\n  id: 5\n", 4, "id is not text"),
        ("version: 1\nrules:\n- deny: a\n  reason: ''\n", 4, "reason is not text"),
        ("version: 1\nrules:\n- deny: a\n  source: []\n", 4, "source is not text"),
        ("version: 1\nrules:\n- deny: a\n  place: moon\n", 4, "local, sandbox, client, provider"),
        ("version: 1\nrules:\n- deny: a\n  deadline: 5m\n", 4, "means nothing for deny"),
        ("version: 1\nrules:\n- ask: a\n  deadline: 0\n", 4, "above 0"),
        ("version: 1\nrules:\n- deny: a\n  arguments: []\n", 4, "not written as lines"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    path: a\n", 5, 'write "/path"'),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    '': a\n", 5, "empty pointer"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    1: a\n", 5, "is not text"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    /a~: a\n", 5, "~0 for ~"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    /a: [b]\n", 5, "one_of"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    /a: {gob: b}\n", 5, "'glob'"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    /a: {regex: (}\n", 5, "regex"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    /a: {min: 2, max: 1}\n", 5, "swap"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    /a: yes\n", 5, "put it in quotes"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    /a: 010\n", 5, "put it in quotes"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    /a: 1e999\n", 5, "put it in quotes"),
        ("version: 1\nrules:\n- deny: a\n  arguments:\n    /a: 2024-01-01\n", 5, "in quotes"),
        ("version: 1\nrules:\n- deny: a\n  id: x\n- ask: b\n  id: x\n", 5, "two rules"),
        ("version: 1\nrules: &r []\n", 2, "in quotes"),
        ("version: !!int 1\n", 1, "in quotes"),
        ("version: 1\nrules: [\n", 3, "not YAML"),
        ("version: 1\n---\nversion: 1\n", 2, "not YAML"),
        ("? [a]\n: b\n", 1, "is not text"),
        ("a:\n  " + "[" * 10_000, 2, "nested more than 32 levels deep"),
    ],
)
def test_every_fault_names_its_line_and_its_cure(text: str, line: int, complaint: str) -> None:
    """A wrong file is refused whole, with file, line, what is wrong and what to write."""
    with pytest.raises(InvalidPolicy) as caught:
        parse_policy(text, file="p.yaml")

    assert (caught.value.file, caught.value.line) == ("p.yaml", line)
    assert str(caught.value).startswith(f"p.yaml:{line}: ")
    assert complaint in str(caught.value)


def test_what_no_line_can_be_given_for_is_still_refused() -> None:
    """Bytes that no YAML holds are refused too."""
    with pytest.raises(InvalidPolicy, match=r"^p\.yaml: this is not YAML"):
        parse_policy("version: \x01\n", file="p.yaml")


def test_a_file_that_cannot_be_read_is_a_policy_error(tmp_path: Path) -> None:
    """A missing or binary file never becomes an empty policy."""
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"version: \xff\xfe")

    with pytest.raises(InvalidPolicy, match="No such file"):
        load_policy(tmp_path / "missing.yaml")
    with pytest.raises(InvalidPolicy, match="UTF-8"):
        load_policy(binary)


def test_the_same_words_mean_the_same_to_every_reader() -> None:
    """true, null and decimal numbers are values; quoted they are text."""
    written = "{/a: true, /b: 'true', /c: null, /d: '5', /e: 5, /f: -1.5e3, /g: y}"
    text = f"version: 1\nrules: [{{deny: t, arguments: {written}}}]"

    (rule,) = parse_policy(text).rules

    values = [pattern.value for pattern in rule.arguments.values() if isinstance(pattern, Equals)]
    assert repr(values) == "[True, 'true', None, '5', 5, -1500.0, 'y']"
