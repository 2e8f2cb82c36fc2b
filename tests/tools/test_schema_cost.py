"""Foreign schemas: checked in bounded time and memory, or refused with the reason.

Time is that of the processor, so that other processes of a busy machine do not count.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pytest

from toolcrib.errors import InvalidTool, SchemaMismatch
from toolcrib.tools.json_schema import (
    check_output_schema,
    check_schema,
    cost_of,
    input_parser,
    output_check,
)
from toolcrib.tools.schema_cost import MAX_EVALUATIONS, SchemaCost

Json = dict[str, Any]

TREE: Json = {
    "type": "object",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        }
    },
    "properties": {"root": {"$ref": "#/$defs/node"}},
}


def bomb(depth: int, keyword: str = "anyOf") -> Json:
    """Each definition offers the next one twice; the last one is a text."""
    defs: Json = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(depth)
    }
    defs[f"d{depth}"] = {"type": "string"}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}


def nested_unevaluated(depth: int) -> Json:
    schema: Json = {"type": "object"}
    for _ in range(depth):
        parts = [schema, {"type": "object"}]
        schema = {"type": "object", "allOf": parts, "unevaluatedProperties": {"type": "string"}}
    return schema


def subsets(size: int) -> Json:
    """The places in data of this schema are the subsets of its definitions."""
    step: Json = {
        f"q{i}": {
            "properties": {
                "a": {"$ref": f"#/$defs/q{i + 1}"},
                "b": {"$ref": f"#/$defs/q{i + 1}"},
            }
        }
        for i in range(size)
    }
    step[f"q{size}"] = {"format": "password"}
    loop = {"properties": {"a": {"$ref": "#/$defs/s"}, "b": {"$ref": "#/$defs/s"}}}
    step["s"] = {"anyOf": [loop, {"properties": {"a": {"$ref": "#/$defs/q0"}}}]}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/s"}}, "$defs": step}


def chain(length: int) -> Json:
    """References that lead through the properties of each other, twice each."""
    defs: Json = {
        f"d{i}": {
            "properties": {
                "a": {"$ref": f"#/$defs/d{i + 1}"},
                "b": {"$ref": f"#/$defs/d{i + 1}"},
            }
        }
        for i in range(length)
    }
    defs[f"d{length}"] = {"type": "string"}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("depth", [12, 16, 19, 22, 30, 60, 500])
def test_a_bomb_is_refused_at_once(keyword: str, depth: int) -> None:
    """Finding 4: a schema whose alternatives double at each level is refused where it is taken,
    as parameters and as an output schema, before anything is compiled or checked.
    """
    started = time.process_time()
    for check in (check_schema, check_output_schema):
        with pytest.raises(InvalidTool, match="too costly"):
            check("t", bomb(depth, keyword), is_foreign=True)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "schema",
    [
        nested_unevaluated(14),
        {"type": "object", "not": bomb(14)["$defs"]["d0"], "$defs": bomb(14)["$defs"]},
        {"type": "object", "$ref": "#"},
        {"type": "object", "anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        subsets(14),
        chain(30),
        {"type": "object", "properties": {"x": {"enum": ["y" * 10] * 20_000}}},
        {"type": "object", "properties": {"x": {"pattern": "((a{1,1000}){1,1000}){1,1000}"}}},
        {"type": "object", "properties": {f"p{i}": {"pattern": f"a{{1,{i}}}"} for i in range(99)}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/missing"}}},
    ],
    ids=[
        "unevaluated",
        "not",
        "itself",
        "itself-twice",
        "subsets",
        "chain",
        "size",
        "pattern",
        "patterns",
        "missing",
    ],
)
def test_other_costly_schemas_are_refused(schema: Json) -> None:
    """Every way to make a check expensive that we know of is refused with a reason, quickly."""
    started = time.process_time()
    with pytest.raises(InvalidTool):
        check_schema("t", schema, is_foreign=True)
    assert time.process_time() - started < 2


@pytest.mark.parametrize("depth", range(1, 12))
def test_a_mismatch_takes_bounded_time_and_memory(depth: int) -> None:
    """Finding 4: what is just below the bound costs little, also when it does not fit."""
    schema = bomb(depth)
    parse = input_parser("t", schema, cost_of("t", schema))
    check = output_check("t", schema, cost_of("t", schema))
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(SchemaMismatch):
        parse(b'{"x": 5}')
    with pytest.raises(SchemaMismatch):
        check({"x": 5})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.process_time() - started < 1
    assert peak < 50_000_000
    assert parse('{"x": "fits"}') == {"x": "fits"}


@pytest.mark.parametrize("depth", [20, 40, 100, 190])
def test_data_that_multiplies_is_refused(depth: int) -> None:
    """A schema that contains itself twice is cheap for shallow data; deep data is refused before
    it is checked, because each level doubles the work.
    """
    node: Json = {"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}}}
    schema: Json = {
        "type": "object",
        "$defs": {"n": {"anyOf": [node, {**node, "title": "again"}]}},
        "properties": {"c": {"$ref": "#/$defs/n"}},
    }
    parse = input_parser("t", schema, cost_of("t", schema))
    assert parse('{"c": {"c": {}}}') == {"c": {"c": {}}}
    started = time.process_time()
    with pytest.raises(SchemaMismatch, match="too large, or nested too deep"):
        parse('{"c":' * depth + "1" + "}" * depth)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("keyword", ["dependentSchemas", "dependencies"])
def test_a_bomb_of_dependencies_is_refused(keyword: str) -> None:
    """Also by the name of older drafts, which the library still applies."""
    schema = bomb(20)
    for level in range(20):
        following = {"$ref": f"#/$defs/d{level + 1}"}
        schema["$defs"][f"d{level}"] = {keyword: {"k": following, "j": following}}

    with pytest.raises(ValueError, match="multiply"):
        SchemaCost(schema)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"uniqueItems": True}, [{"a": n} for n in range(1_000)]),
        ({"const": [1] * 1_000}, [1] * 1_000),
        ({"enum": [[1] * 1_000]}, [1] * 1_000),
        ({"items": {"multipleOf": 1e-300}}, [1e308] * 10),
    ],
    ids=["uniqueItems", "const", "enum", "multipleOf"],
)
def test_what_compares_whole_values_counts_all_of_them(schema: Json, value: Any) -> None:
    """A keyword that looks at everything in a value, or at every digit, is no single evaluation."""
    often = {"allOf": [{"$ref": "#/$defs/c"}] * 1_000}
    cost = SchemaCost({"type": "object", "properties": {"x": often}, "$defs": {"c": schema}})

    with pytest.raises(SchemaMismatch):
        cost.estimate({"x": value})
    assert cost.estimate({"x": value[:1]}) < MAX_EVALUATIONS


def test_large_plain_data_is_checked() -> None:
    """Size alone is no reason to refuse: the work is linear in ordinary schemas."""
    row: Json = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    schema: Json = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}}
    data = {"rows": [{"a": "x" * 20} for _ in range(20_000)]}
    parse = input_parser("t", schema, cost_of("t", schema))
    assert parse(json.dumps(data)) == data


def test_a_tree_is_no_bomb() -> None:
    """A schema that contains itself once, as trees do, is taken and used."""
    schema = check_schema("t", TREE, is_foreign=True)
    parse = input_parser("t", schema, cost_of("t", schema))
    data: Json = {"name": "leaf"}
    for _ in range(30):
        data = {"name": "branch", "children": [data, {"name": "leaf"}]}
    assert parse(json.dumps({"root": data})) == {"root": data}
    with pytest.raises(SchemaMismatch) as mismatch:
        parse('{"root": {"children": [{"name": 5}]}}')
    assert mismatch.value.errors, "a small mismatch is explained"


def test_a_wide_union_is_explained() -> None:
    """Ordinary unions keep their messages."""
    options = [
        {"type": "object", "properties": {"kind": {"const": f"k{i}"}}, "required": ["kind"]}
        for i in range(100)
    ]
    schema: Json = {"type": "object", "properties": {"x": {"oneOf": options}}}
    parse = input_parser("t", schema, cost_of("t", schema))
    with pytest.raises(SchemaMismatch) as mismatch:
        parse('{"x": {"kind": "none"}}')
    assert mismatch.value.errors


def test_the_schemas_of_the_host_are_not_bounded() -> None:
    """The host application may write what it likes: only foreign schemas are measured."""
    schema = bomb(14)
    assert check_schema("t", schema)
    assert input_parser("t", schema)('{"x": "fits"}') == {"x": "fits"}


def test_the_estimate_is_never_below_the_work() -> None:
    """The fast bound holds: what it lets through is within the budget of the exact estimate."""
    for schema in (TREE, bomb(6), chain(5), nested_unevaluated(3)):
        cost = SchemaCost(schema)
        examples: list[Json] = [{"x": "y"}, {"root": {"children": [{}] * 50}}, {"a": {"b": [1]}}]
        for data in examples:
            if cost.is_small(json.dumps(data)):
                assert cost.estimate(data) <= MAX_EVALUATIONS
