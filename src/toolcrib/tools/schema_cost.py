"""The cost of checking data against a JSON Schema that somebody else wrote.

A short schema can take exponential time: each level offers the next one twice. A schema from
outside, of a client's tool or of another MCP server, is therefore measured when it is taken, and
each check of data is estimated before it is made. The unit is one evaluation: one subschema applied
to one value. jsonschema-rs holds the interpreter lock while it checks, so a thread alone would
protect nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeAlias, cast

from toolcrib.errors import SchemaMismatch

Node: TypeAlias = dict[str, Any]

MAX_SCHEMA_BYTES: Final = 128_000
MAX_DEPTH: Final = 64
MAX_ALTERNATIVES: Final = 10_000
"""How many evaluations one value may take."""
MAX_EXPANSION: Final = 100_000
"""How many subschemas there may be when every reference is written out."""
MAX_COUNTED_PATTERNS: Final = 50
"""How many patterns may count repetitions: they are slow to compile."""
MAX_EVALUATIONS: Final = 1_000_000
"""How many evaluations one check of data may take: some tens of milliseconds."""
MAX_EXPLAINED: Final = 5_000
"""Beyond so many evaluations, a mismatch is not explained: each one would be kept as an error."""
BACKTRACK_LIMIT: Final = 10_000
PATTERN_BYTES: Final = 2_000_000

_QUICK_EVALUATIONS: Final = 20_000
_MAX_PAIRS: Final = 100_000
_LISTED: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
_DEPENDENT: Final = ("dependentSchemas", "dependencies")
"""The second is of older drafts, and the library still applies it."""
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_MEMBERS: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_ELEMENTS: Final = ("items", "contains", "unevaluatedItems")
_COMPARED: Final = ("uniqueItems", "const", "enum")
"""What looks at a value and everything in it."""
_UNEVALUATED_FACTOR: Final = 3
_FANCY_PATTERN: Final = re.compile(r"\(\?<?[=!]|\\[1-9k]")
_FANCY_WEIGHT: Final = 500
_FRACTION_WEIGHT: Final = 200
"""Whether a number is a multiple of a fraction is computed with all digits of both."""
_TOO_LARGE: Final = "They are too large, or nested too deep, to be checked against the schema."
_UNEXPLAINED: Final = "They do not fit the schema, which has too many alternatives to say where."


class SchemaCost:
    """What checks against one schema cost. Raises `ValueError` with the reason for a schema that
    costs too much whatever the data is.
    """

    __slots__ = ("_alternatives", "_in_place", "_root", "_spread")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = dict(schema)
        self._in_place: dict[int, list[Any]] = {}
        self._alternatives: dict[int, int] = {}
        self._spread: int | None = None
        try:
            self._measure()
        except RecursionError:
            raise ValueError("it is nested too deep") from None

    def _measure(self) -> None:
        _check_size(self._root)
        for node in self._subschemas():
            if self._count_alternatives(node, ()) > MAX_ALTERNATIVES:
                raise ValueError(
                    f"its alternatives multiply to more than {MAX_ALTERNATIVES} for one value; "
                    "write fewer anyOf, oneOf, allOf, not and if within each other"
                )
        if self._expansion(self._root, {}, ()) > MAX_EXPANSION:
            raise ValueError(
                f"its references expand to more than {MAX_EXPANSION} subschemas; use fewer"
            )
        self._spread = _Spread(self).of(self._root, ())

    def is_small(self, raw: bytes | str, evaluations: int = MAX_EVALUATIONS) -> bool:
        """Whether any data in this JSON text takes at most so many evaluations."""
        if self._spread is None:
            return False
        marks: Any = (b",", b"[", b"{") if isinstance(raw, bytes) else (",", "[", "{")
        values = 1 + sum(raw.count(mark) for mark in marks)
        return self._spread * values + (len(raw) >> 4) <= evaluations

    def is_quick(self, raw: bytes | str) -> bool:
        """Whether this JSON text may be checked, and its defaults filled in, in the event loop."""
        return self.is_small(raw, _QUICK_EVALUATIONS)

    def estimate(self, data: Any) -> int:
        """An upper bound of the evaluations that a check of this data takes. Raises
        `SchemaMismatch` when they are too many.
        """
        try:
            evaluations = _Estimate(self).evaluations(self._root, data)
        except RecursionError:
            evaluations = MAX_EVALUATIONS + 1
        if evaluations > MAX_EVALUATIONS:
            raise SchemaMismatch((), _TOO_LARGE)
        return evaluations

    def explain(self, validator: Any, data: Any) -> SchemaMismatch:
        """The mismatch of data that does not fit, with its errors where they can be told."""
        if self.estimate(data) > MAX_EXPLAINED:
            return SchemaMismatch((), _UNEXPLAINED)
        return SchemaMismatch(tuple(validator.iter_errors(data)))

    def alternatives(self, node: Any) -> int:
        """The evaluations of a value without members."""
        known = self._alternatives
        return known[id(cast("Node", node))] if isinstance(node, dict) else 1

    def in_place(self, node: Node) -> list[Any]:
        """The subschemas that apply to the same value as this one, with references followed."""
        known = self._in_place.get(id(node))
        if known is None:
            applied = [node[key] for key in _SINGLE if key in node]
            for key in _LISTED:
                applied += _list(node.get(key))
            for key in _DEPENDENT:
                applied += _map(node.get(key)).values()
            if isinstance(node.get("$ref"), str):
                applied.append(self._target(node["$ref"]))
            known = self._in_place[id(node)] = applied * factor_of(node)
        return known

    def _target(self, reference: str) -> Any:
        node: Any = self._root
        try:
            for part in reference.split("/")[1:]:
                key = part.replace("~1", "/").replace("~0", "~")
                node = node[int(key) if isinstance(node, list) else key]
        except (KeyError, IndexError, TypeError, ValueError):
            raise ValueError(f"it refers to {reference[:80]!r}, which it does not have") from None
        return node

    def _subschemas(self) -> list[Node]:
        """Every subschema that data can meet."""
        waiting: list[Any] = [self._root]
        reached: dict[int, Node] = {}
        while waiting:
            schema = cast("Node", waiting.pop())
            if isinstance(schema, dict) and id(schema) not in reached:  # pyright: ignore[reportUnnecessaryIsInstance]
                reached[id(schema)] = schema
                waiting += (*self.in_place(schema), *children_of(schema))
        return list(reached.values())

    def _count_alternatives(self, node: Any, above: tuple[int, ...]) -> int:
        if not isinstance(node, dict):
            return 1
        schema = cast("Node", node)
        if id(schema) in above:
            raise ValueError("it refers to itself without a property or element in between")
        known = self._alternatives.get(id(schema))
        if known is None:
            if len(above) > MAX_DEPTH:
                raise ValueError(f"its alternatives are nested more than {MAX_DEPTH} deep")
            below = (*above, id(schema))
            known = weight_of(schema)
            for applied in self.in_place(schema):
                known += self._count_alternatives(applied, below)
                if known > MAX_ALTERNATIVES:
                    break
            self._alternatives[id(schema)] = known
        return known

    def _expansion(self, node: Any, known: dict[int, int], above: tuple[int, ...]) -> int:
        if not isinstance(node, dict) or id(cast("Node", node)) in above:
            return 1
        schema = cast("Node", node)
        count = known.get(id(schema))
        if count is None:
            below = (*above, id(schema))
            count = 1
            for child in (*self.in_place(schema), *children_of(schema)):
                count += self._expansion(child, known, below)
                if count > MAX_EXPANSION:
                    break
            known[id(schema)] = count
        return count


class _Spread:
    """How many evaluations any one value may take; None when that depends on the data, because
    the schema contains itself.
    """

    def __init__(self, cost: SchemaCost) -> None:
        self._cost = cost
        self._known: dict[int, int | None] = {}
        self._members: dict[int, int | None] = {}

    def of(self, node: Any, above: tuple[int, ...]) -> int | None:
        """The spread of a subschema below those in `above`."""
        if not isinstance(node, dict):
            return 1
        schema = cast("Node", node)
        if id(schema) in above:
            return None
        if id(schema) not in self._known:
            members = self._of_members(schema, (*above, id(schema)))
            own = self._cost.alternatives(schema)
            self._known[id(schema)] = None if members is None else max(own, members)
        return self._known[id(schema)]

    def _of_members(self, node: Node, above: tuple[int, ...]) -> int | None:
        if id(node) not in self._members:
            self._members[id(node)] = self._sum(node, above)
        return self._members[id(node)]

    def _sum(self, node: Node, above: tuple[int, ...]) -> int | None:
        total = 0
        for applied in self._cost.in_place(node):
            if isinstance(applied, dict):
                schema = cast("Node", applied)
                below = (*above, id(schema))
                spread = None if id(schema) in above else self._of_members(schema, below)
                if spread is None:
                    return None
                total = min(total + spread, MAX_EVALUATIONS)
        spreads = [self.of(child, above) for child in others_of(node)]
        # A key has one property only; everything else may apply together.
        named = [self.of(child, above) for child in _map(node.get("properties")).values()]
        if None in spreads or None in named:
            return None
        total += sum(cast("list[int]", spreads)) + max(cast("list[int]", named), default=0)
        return min(total, MAX_EVALUATIONS)


class _Estimate:
    """Counts the evaluations of one check: each pair of subschema and value once."""

    def __init__(self, cost: SchemaCost) -> None:
        self._cost = cost
        self._known: dict[tuple[int, int], int] = {}
        self._sizes: dict[int, int] = {}
        self._pairs = 0

    def evaluations(self, node: Any, data: Any) -> int:
        if not isinstance(node, dict):
            return 1
        schema = cast("Node", node)
        if not isinstance(data, dict | list):
            size = len(data) >> 6 if isinstance(data, str) else 0
            return self._cost.alternatives(schema) * (1 + size)
        container = cast("Any", data)
        pair = id(schema), id(container)
        known = self._known.get(pair)
        if known is None:
            known = weight_of(schema)
            if any(key in schema for key in _COMPARED):
                known += self._size(container)
            in_place = ((applied, container) for applied in self._cost.in_place(schema))
            for child, member in chain(in_place, _applications(schema, container)):
                self._pairs += 1
                if self._pairs > _MAX_PAIRS or known > MAX_EVALUATIONS:
                    return MAX_EVALUATIONS + 1
                known += self.evaluations(child, member)
            self._known[pair] = known
        return known

    def _size(self, data: Any) -> int:
        """How many values there are to compare."""
        if not isinstance(data, dict | list):
            return 1
        container = cast("Any", data)
        size = self._sizes.get(id(container))
        if size is None:
            members = container.values() if isinstance(data, dict) else container
            size = self._sizes[id(container)] = 1 + sum(map(self._size, members))
        return size


def weight_of(node: Node) -> int:
    """The evaluations that a subschema counts for by itself."""
    weight = 1 + (len(_list(node.get("enum"))) + len(_list(node.get("required")))) // 8
    patterns = [node.get("pattern"), *_map(node.get("patternProperties"))]
    fancy = [text for text in patterns if isinstance(text, str) and _FANCY_PATTERN.search(text)]
    divisor = node.get("multipleOf")
    is_fraction = isinstance(divisor, float) and not divisor.is_integer()
    return weight + _FANCY_WEIGHT * len(fancy) + _FRACTION_WEIGHT * is_fraction


def factor_of(node: Node) -> int:
    """How often the subschemas beside it are evaluated: `unevaluated...` does so again."""
    return _UNEVALUATED_FACTOR if any(key in node for key in _UNEVALUATED) else 1


def _check_size(schema: Node) -> None:
    from pydantic_core import to_json

    size = len(to_json(schema))
    if size > MAX_SCHEMA_BYTES:
        raise ValueError(f"it has {size} bytes; at most {MAX_SCHEMA_BYTES} are taken")
    patterns = [
        text
        for node in _nodes(schema, 0)
        for text in (node.get("pattern"), *_map(node.get("patternProperties")))
        if isinstance(text, str) and "{" in text
    ]
    if len(patterns) > MAX_COUNTED_PATTERNS:
        raise ValueError(
            f"it has more than {MAX_COUNTED_PATTERNS} patterns that count; write fewer with {{}}"
        )


def _nodes(value: Any, depth: int) -> Iterator[Node]:
    """Every object in a schema: subschemas, and what could be referred to as one."""
    if depth > 2 * MAX_DEPTH:
        raise ValueError(f"it is nested more than {2 * MAX_DEPTH} deep")
    if isinstance(value, dict):
        node = cast("Node", value)
        yield node
        for child in node.values():
            yield from _nodes(child, depth + 1)
    elif isinstance(value, list):
        for child in cast("list[Any]", value):
            yield from _nodes(child, depth + 1)


def children_of(node: Node) -> Iterator[Any]:
    """The subschemas that apply to members of a value."""
    yield from _map(node.get("properties")).values()
    yield from others_of(node)


def others_of(node: Node) -> Iterator[Any]:
    """The subschemas of members that are not named one by one."""
    yield from _map(node.get("patternProperties")).values()
    for key in (*_MEMBERS, *_ELEMENTS):
        if key in node:
            yield node[key]
    yield from _list(node.get("prefixItems"))


def _applications(node: Node, data: Any) -> Iterator[tuple[Any, Any]]:
    """Each subschema that may apply to a member of the data, with the member."""
    if isinstance(data, dict):
        properties = _map(node.get("properties"))
        others = [*_map(node.get("patternProperties")).values()]
        others += [node[key] for key in _MEMBERS if key in node]
        for key, member in cast("Node", data).items():
            if key in properties:
                yield properties[key], member
            for other in others:
                yield other, member
        return
    prefix = _list(node.get("prefixItems"))
    others = [node[key] for key in _ELEMENTS if key in node]
    for index, member in enumerate(cast("list[Any]", data)):
        if index < len(prefix):
            yield prefix[index], member
        for other in others:
            yield other, member


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _map(value: Any) -> Node:
    return cast("Node", value) if isinstance(value, dict) else {}
