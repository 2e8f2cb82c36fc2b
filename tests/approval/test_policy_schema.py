"""The published JSON Schema and the loader accept and refuse the same files."""

import json
from importlib import resources
from typing import Any

import jsonschema_rs
import pytest
import yaml

from toolcrib.approval.policy_file import parse_policy
from toolcrib.approval.rule import RESERVED_IDS
from toolcrib.errors import InvalidPolicy


def schema() -> dict[str, Any]:
    text = resources.files("toolcrib.approval").joinpath("policy.schema.json").read_text("utf-8")
    return json.loads(text)


def fits_schema(document: Any) -> bool:
    validator = jsonschema_rs.Draft202012Validator(schema(), validate_formats=True)
    return validator.is_valid(document)


def is_loaded(document: Any) -> bool:
    try:
        parse_policy(yaml.safe_dump(document))
    except InvalidPolicy:
        return False
    return True


def with_rule(**rule: Any) -> dict[str, Any]:
    return {"version": 1, "rules": [rule]}


def with_pattern(pattern: Any) -> dict[str, Any]:
    return with_rule(deny="a", arguments={"/p": pattern})


GOOD: list[Any] = [
    {"version": 1},
    {"version": 1, "rules": []},
    *[{"version": 1, "unmatched": unmatched} for unmatched in ("risk", "allow", "ask", "deny")],
    *[{"version": 1, "deadline": deadline} for deadline in (1, 0.5, "30s", "1.5h", "7d", "10m")],
    with_rule(allow="a"),
    with_rule(ask=["a", "b*", "c?"], deadline="5m", id="x", reason="y", source="*", place="client"),
    with_rule(deny="*", arguments={}),
    with_rule(allow="a", principal="ann", group=["desk", "fin*"]),
    *[with_rule(ask="a", approvers=each) for each in (1, 20, "finance", ["finance", "board"])],
    with_rule(ask="a", approvers={"count": 2, "groups": ["finance"]}),
    with_rule(deny="a", arguments={"/a/b/*": 1, "/~0~1": 2, "/": 3}),
    *[with_pattern(scalar) for scalar in ("x", "", 1, 1.5, True, None)],
    with_pattern({"glob": "**"}),
    with_pattern({"regex": "a+"}),
    with_pattern({"one_of": ["a", 1, None, False]}),
    with_pattern({"min": 1}),
    with_pattern({"max": 1.5}),
    with_pattern({"min": 1, "max": 2}),
    with_pattern({"not": {"not": "x"}}),
]
BAD: list[Any] = [
    *[with_rule(ask="a", approvers=each) for each in (0, 21, True, 1.5, "", [], [""], [1])],
    with_rule(ask="a", approvers={"count": "2"}),
    with_rule(ask="a", approvers={"who": "finance"}),
    with_rule(allow="a", approvers=2),
    with_rule(deny="a", approvers=2),
    with_rule(allow="a", principal=""),
    with_rule(allow="a", principal=[]),
    with_rule(allow="a", group=[1]),
    None,
    [],
    "version: 1",
    {},
    {"version": 2},
    {"version": "1"},
    {"version": 1, "other": 1},
    {"version": 1, "unmatched": "maybe"},
    *[{"version": 1, "deadline": bad} for bad in (0, -1, "5", "0s", "0.0m", "1h30m", True, None)],
    {"version": 1, "rules": {}},
    {"version": 1, "rules": None},
    {"version": 1, "rules": ["allow"]},
    with_rule(),
    with_rule(id="a"),
    with_rule(allow="a", deny="b"),
    with_rule(allow="a", extra=1),
    with_rule(allow=5),
    with_rule(allow=None),
    with_rule(allow=[]),
    with_rule(allow=["a", "a"]),
    with_rule(allow=["a", 5]),
    with_rule(allow="fs/a"),
    with_rule(allow=""),
    with_rule(allow="a" * 129),
    with_rule(allow="a", deadline=5),
    with_rule(deny="a", deadline=5),
    with_rule(ask="a", deadline="soon"),
    with_rule(ask="a", id=""),
    with_rule(ask="a", id=5),
    *[with_rule(ask="a", id=taken) for taken in sorted(RESERVED_IDS)],
    with_rule(ask="a", reason=""),
    with_rule(ask="a", source=""),
    with_rule(ask="a", place="moon"),
    with_rule(ask="a", arguments=[]),
    with_rule(ask="a", arguments={"p": 1}),
    with_rule(ask="a", arguments={"": 1}),
    with_rule(ask="a", arguments={"/~2": 1}),
    with_pattern([]),
    with_pattern({}),
    with_pattern({"glob": ""}),
    with_pattern({"glob": 1}),
    with_pattern({"glob": "a", "regex": "b"}),
    with_pattern({"regex": "("}),
    with_pattern({"one_of": []}),
    with_pattern({"one_of": "a"}),
    with_pattern({"one_of": [[]]}),
    with_pattern({"min": "1"}),
    with_pattern({"min": None}),
    with_pattern({"max": True}),
    with_pattern({"not": []}),
]


@pytest.mark.parametrize("document", GOOD, ids=json.dumps)
def test_schema_and_loader_accept_the_same(document: Any) -> None:
    """What an editor with the schema calls right, the loader takes."""
    assert fits_schema(document)
    assert is_loaded(document)


@pytest.mark.parametrize("document", BAD, ids=json.dumps)
def test_schema_and_loader_refuse_the_same(document: Any) -> None:
    """What the loader refuses, an editor with the schema marks."""
    assert not fits_schema(document)
    assert not is_loaded(document)


@pytest.mark.parametrize(
    "document",
    [
        with_pattern({"min": 2, "max": 1}),
        with_pattern({"regex": "(?=a)b"}),
        {"version": 1, "rules": [{"allow": "a", "id": "x"}, {"deny": "b", "id": "x"}]},
    ],
    ids=json.dumps,
)
def test_the_loader_also_refuses_what_a_schema_cannot_say(document: Any) -> None:
    """Order of limits, the regex engine and unique ids are beyond JSON Schema."""
    assert fits_schema(document)
    assert not is_loaded(document)


def test_the_schema_is_a_schema() -> None:
    """The published file itself is valid against the draft it names."""
    assert jsonschema_rs.meta.is_valid(schema())
