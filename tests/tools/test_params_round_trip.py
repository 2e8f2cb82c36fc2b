"""Whatever a params type can hold survives the way to JSON and back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from toolcrib.tools.identity import canonical_json
from toolcrib.tools.params import params_of_function, params_of_type


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Inner:
    name: str
    sizes: tuple[int, ...]
    ratio: float | None = None


@dataclass(frozen=True)
class Outer:
    text: str
    count: int
    share: float
    flag: bool
    names: list[str]
    table: dict[str, int]
    by_number: dict[int, str]
    pair: tuple[int, str]
    inner: Inner
    maybe: Inner | None
    several: list[Inner]
    either: int | str
    colour: Colour
    level: Level
    when: datetime
    day: date
    choice: Literal["a", "b"]
    ident: UUID
    price: Decimal
    unique: frozenset[int]


# Lone surrogates are no Unicode text, and JSON parsers refuse them.
texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**70), 2**70)
floats = st.floats(allow_nan=False, allow_infinity=False)
inners = st.builds(Inner, texts, st.lists(numbers).map(tuple), st.none() | floats)
outers = st.builds(
    Outer,
    text=texts,
    count=numbers,
    share=floats,
    flag=st.booleans(),
    names=st.lists(texts),
    table=st.dictionaries(texts, numbers),
    by_number=st.dictionaries(st.integers(-(2**31), 2**31), texts),
    pair=st.tuples(numbers, texts),
    inner=inners,
    maybe=st.none() | inners,
    several=st.lists(inners, max_size=3),
    either=numbers | texts,
    colour=st.sampled_from(Colour),
    level=st.sampled_from(Level),
    when=st.datetimes(timezones=st.just(UTC)),
    day=st.dates(),
    choice=st.sampled_from(["a", "b"]),
    ident=st.uuids(),
    price=st.decimals(allow_nan=False, allow_infinity=False, places=3),
    unique=st.frozensets(numbers),
)

PARAMS = params_of_type("outer", Outer)


def take(inner: Inner, when: datetime, names: list[str], either: int | str = 0) -> None: ...


FUNCTION = params_of_function("take", take)


@given(outers)
def test_a_dataclass_survives_the_way_through_json(value: Outer) -> None:
    """C6: value -> JSON -> parse is the value, for every type of field."""
    assert PARAMS.parse(to_json(value)) == value


@given(outers)
def test_the_canonical_form_carries_the_same_value(value: Outer) -> None:
    """What is hashed and approved is what runs."""
    assert PARAMS.parse(canonical_json(value)) == value


@given(inners, st.datetimes(timezones=st.just(UTC)), st.lists(texts), numbers | texts)
def test_a_functions_arguments_survive_the_way_through_json(
    inner: Inner, when: datetime, names: list[str], either: Any
) -> None:
    """T4: the same for arguments that are passed by name."""
    arguments = {"inner": inner, "when": when, "names": names, "either": either}

    assert FUNCTION.parse(to_json(arguments)) == arguments
