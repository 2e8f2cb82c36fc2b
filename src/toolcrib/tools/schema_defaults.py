"""Defaults of JSON Schemas written by hand: what is not sent counts as if its default were.

A validator only reads `default`. The tool behind the schema uses it, so rules and approvers have to
see it. Each place of the arguments is visited once: references and `allOf` are folded together when
the tool is prepared, and of an `anyOf` or `oneOf` the first branch that can apply counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

from pydantic_core import from_json, to_json

from toolcrib.errors import InvalidTool, SchemaMismatch

Node = dict[str, Any]

MAX_DEFAULT_BYTES: Final = 100_000
"""How much the defaults of one tool may add up to as JSON; a schema can nest them without end."""
MAX_FILLED_BYTES: Final = 1_000_000
"""How much the defaults may add to the arguments of one call: a list can repeat them."""

_TOO_MUCH: Final = f"Their defaults add up to more than {MAX_FILLED_BYTES} bytes; send fewer items."
_KINDS: Final[dict[str, tuple[type[Any], ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}


def filler_of(tool: str, schema: Mapping[str, Any]) -> Callable[[Any], bool] | None:
    """Return a function that fills the defaults of `schema` into arguments, in place, and says
    whether it added any; `None` when there are none.

    Raises `InvalidTool` when the defaults add up to too much. The function raises
    `SchemaMismatch` when those of one call do.
    """
    if b'"default":' not in to_json(schema):
        return None
    root = dict(schema)
    reader = _DefaultsReader(root)
    try:
        filler = reader.read([root])
        budget = _Budget(MAX_DEFAULT_BYTES)
        for part in reader.fillers():
            part.complete(budget)
    except (OverflowError, RecursionError):
        raise InvalidTool(
            f"tool {tool!r}: the defaults of its parameters add up to more than "
            f"{MAX_DEFAULT_BYTES} bytes, or contain themselves; leave some of them out"
        ) from None
    except (KeyError, IndexError, ValueError):
        raise InvalidTool(f"tool {tool!r}: parameters: a $ref leads nowhere") from None
    if not any(part.defaults for part in reader.fillers()):
        return None

    def fill(arguments: Any) -> bool:
        try:
            return _fill([filler], arguments, _Budget(MAX_FILLED_BYTES))
        except OverflowError:
            raise SchemaMismatch((), _TOO_MUCH) from None

    return fill


class _Budget:
    """Counts what defaults add, in bytes of JSON."""

    __slots__ = ("_left",)

    def __init__(self, size: int) -> None:
        self._left = size

    def spend(self, default: bytes) -> bytes:
        """Return a default to add; raises `OverflowError` when that is too much."""
        self._left -= len(default)
        if self._left < 0:
            raise OverflowError
        return default


class _Filler:
    """What is filled in at one place of the arguments."""

    __slots__ = ("branches", "defaults", "elements", "members", "others", "prefix")

    def __init__(self) -> None:
        self.defaults: dict[str, bytes] = {}
        """What stands for each missing property, as JSON."""
        self.members: dict[str, _Filler] = {}
        self.others: _Filler | None = None
        self.prefix: list[_Filler] = []
        self.elements: _Filler | None = None
        self.branches: list[list[tuple[list[Node], _Filler]]] = []

    def member(self, key: str | int) -> _Filler | None:
        """Return the filler of a property or an element, if there is one."""
        if isinstance(key, str):
            return self.members.get(key, self.others)
        return self.prefix[key] if key < len(self.prefix) else self.elements

    def complete(self, budget: _Budget) -> None:
        """Fill the defaults of this place with those inside them, so that calls need not."""
        for key, default in self.defaults.items():
            value = from_json(budget.spend(default))
            if _fill([self.members[key]], value, budget):
                self.defaults[key] = to_json(value)


def _fill(fillers: list[_Filler], value: Any, budget: _Budget) -> bool:
    """Fill in what is missing in a value and below it; says whether anything was.

    Several fillers may describe its place. It is visited once for all of them: one by one, the
    visits would double with every level.
    """
    if not isinstance(value, dict | list):
        return False
    applied = _applied(fillers, value)
    is_changed = False
    if isinstance(value, dict):
        members = cast("Node", value)
        for filler in applied:
            for key, default in filler.defaults.items():
                if key not in members:
                    members[key] = from_json(budget.spend(default))
                    is_changed = True
        places: Iterable[tuple[str | int, Any]] = members.items()
    else:
        places = enumerate(cast("list[Any]", value))
    for key, part in places:
        if isinstance(part, dict | list):
            below = [filler.member(key) for filler in applied]
            inner = [filler for filler in below if filler is not None]
            is_changed = (bool(inner) and _fill(inner, part, budget)) or is_changed
    return is_changed


def _applied(fillers: list[_Filler], value: Any) -> list[_Filler]:
    """Return the fillers with those of the branches that can apply to `value`, each once."""
    applied: dict[int, _Filler] = {}
    waiting = list(fillers)
    while waiting:
        filler = waiting.pop(0)
        if id(filler) in applied:
            continue
        applied[id(filler)] = filler
        for choice in filler.branches:
            waiting += [inner for nodes, inner in choice if _can_apply(nodes, value)][:1]
    return list(applied.values())


class _DefaultsReader:
    """Reads a schema once. Subschemas that apply together become one filler."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._fillers: dict[frozenset[int], _Filler] = {}

    def fillers(self) -> list[_Filler]:
        """Every filler that has been read."""
        return list(self._fillers.values())

    def read(self, schemas: Iterable[Any]) -> _Filler:
        """Return the filler of a place where these schemas apply together."""
        nodes = self._folded(schemas)
        key = frozenset(map(id, nodes))
        known = self._fillers.get(key)
        if known is not None:
            return known
        # Entered before it is filled, so that a schema that contains itself comes to an end.
        filler = self._fillers[key] = _Filler()
        self._read_members(filler, nodes)
        self._read_elements(filler, nodes)
        for choice in (node[key] for node in nodes for key in ("anyOf", "oneOf") if key in node):
            branches = [(self._folded([part]), self.read([part])) for part in choice]
            filler.branches.append(branches)
        return filler

    def _read_members(self, filler: _Filler, nodes: list[Node]) -> None:
        schemas: dict[str, list[Any]] = {}
        for node in nodes:
            for name, schema in node.get("properties", {}).items():
                schemas.setdefault(name, []).append(schema)
        for name, parts in schemas.items():
            filler.members[name] = self.read(parts)
            folded = self._folded(parts)
            given = next((node for node in folded if "default" in node), None)
            if given is not None and _fits(folded, given["default"]):
                filler.defaults[name] = to_json(given["default"])
        others: list[Any] = [
            node["additionalProperties"]
            for node in nodes
            if isinstance(node.get("additionalProperties"), dict)
        ]
        filler.others = self.read(others) if others else None

    def _read_elements(self, filler: _Filler, nodes: list[Node]) -> None:
        length = max((len(node.get("prefixItems", ())) for node in nodes), default=0)
        for index in range(length):
            listed = [node.get("prefixItems", ())[index : index + 1] for node in nodes]
            filler.prefix.append(self.read(schema for part in listed for schema in part))
        items = [node["items"] for node in nodes if isinstance(node.get("items"), dict)]
        filler.elements = self.read(items) if items else None

    def _folded(self, schemas: Iterable[Any]) -> list[Node]:
        """Return the schemas with all that they refer to and consist of, each once."""
        waiting = list(schemas)
        nodes: dict[int, Node] = {}
        while waiting:
            node = waiting.pop(0)
            if not isinstance(node, dict) or id(cast("Node", node)) in nodes:
                continue
            node = cast("Node", node)
            nodes[id(node)] = node
            waiting += node.get("allOf", ())
            if isinstance(node.get("$ref"), str):
                waiting.append(self._target(node["$ref"]))
        return list(nodes.values())

    def _target(self, reference: str) -> Any:
        node: Any = self._root
        for part in unquote(reference).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            node = node[int(key) if isinstance(node, list) else key]
        return node


def _fits(nodes: list[Node], default: Any) -> bool:
    """Whether a default is a value that the schema lets anyone send. `null` for a string is not:
    generators write it for "no value", and the tool is better off without it.
    """
    return all(
        _is_of_type(node, default)
        and ("enum" not in node or default in node["enum"])
        and ("const" not in node or default == node["const"])
        for node in nodes
    )


def _is_of_type(node: Node, value: Any) -> bool:
    names: Any = node.get("type")
    if names is None:
        return True
    kinds = (names,) if isinstance(names, str) else tuple(cast("list[str]", names))
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _KINDS[kind]) for kind in kinds) or (
        "integer" in kinds and isinstance(value, float) and value.is_integer()
    )


def _can_apply(nodes: list[Node], value: Any) -> bool:
    """Whether a branch is not ruled out by the type, the keys and the constants of `value`."""
    return all(
        _is_of_type(node, value)
        and (not isinstance(value, dict) or _has_room(node, cast("Node", value)))
        for node in nodes
    )


def _has_room(node: Node, members: Node) -> bool:
    properties: Node = node.get("properties", {})
    if any(key not in members for key in node.get("required", ())):
        return False
    if node.get("additionalProperties") is False and not members.keys() <= properties.keys():
        return "patternProperties" in node
    for key in members.keys() & properties.keys():
        schema: Any = properties[key]
        if isinstance(schema, dict) and not _fits([cast("Node", schema)], members[key]):
            return False
    return True
