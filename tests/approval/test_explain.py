"""An explanation names the deciding rule and says of every other why it did not match."""

from tests.approval.samples import subject
from toolcrib.approval.pattern import Equals, Glob
from toolcrib.approval.policy import Policy
from toolcrib.approval.rule import Rule

RULES = (
    Rule("allow", "write_file", id="writes", file="p.yaml", line=3),
    Rule("allow", "read_*", id="reads"),
    Rule("ask", source="host", id="hosts"),
    Rule("ask", place="sandbox", id="boxed"),
    Rule("deny", arguments={"/mode": Equals("x")}, id="modes"),
    Rule("deny", arguments={"/path": Glob("/etc/**")}, id="etc"),
    Rule("deny", arguments={"/tags/*": Equals("x")}, id="tags"),
)


def test_every_rule_says_why_it_did_not_match() -> None:
    """The first condition that failed is named, for each rule that did not match."""
    judged = subject({"path": "notes.txt", "tags": []})

    findings = Policy(RULES).explain(judged).findings

    assert {finding.rule: finding.why_not for finding in findings} == {
        "writes": None,
        "reads": "the tool is write_file, not read_*",
        "hosts": "the source is python, not host",
        "boxed": "the place is local, not sandbox",
        "modes": "there is no argument at /mode",
        "etc": 'the argument at /path is not {"glob": "/etc/**"}',
        "tags": "there is no argument at /tags/*",
    }


def test_an_explanation_reads_as_lines() -> None:
    """The text leads with the verdict, its rule and its reason; rules from files say where."""
    text = Policy(RULES[:2]).explain(subject({"path": "notes.txt"})).text()

    assert text.split("\n") == [
        "allow: python/write_file",
        "decided by: writes",
        'because: Rule "writes" allows this call.',
        "  matches   allow writes (p.yaml:3)",
        "  no match  allow reads: the tool is write_file, not read_*",
    ]


def test_an_explanation_of_a_question_says_when_it_expires() -> None:
    """Whoever reads it learns how long there is to answer."""
    text = Policy((Rule("ask", deadline_seconds=300),)).explain(subject()).text()

    assert "expires after: 5m" in text


def test_no_argument_is_shown() -> None:
    """Arguments may be secret, so an explanation never repeats one."""
    explanation = Policy(RULES).explain(subject({"path": "hunter2", "mode": "hunter2"}))

    assert "hunter2" not in explanation.text()
    assert "hunter2" not in repr(explanation)
