"""Tool: its types, its rules and what is refused."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

import pytest
import typing_extensions
from pydantic import BaseModel

from toolcrib.errors import InvalidTool, UsageError
from toolcrib.tools.context import ToolContext
from toolcrib.tools.example import ToolExample
from toolcrib.tools.result import ToolResult
from toolcrib.tools.tool import Tool

T = TypeVar("T")


@dataclass
class Params:
    query: str


@dataclass
class Result:
    found: dict[str, object]


class Model(BaseModel):
    query: str


class Typed(TypedDict):
    query: str


class NewTyped(typing_extensions.TypedDict):
    query: str


def run(params: Params, *, context: ToolContext) -> ToolResult[Result]:
    return ToolResult(value=Result({"query": params.query}))


def declare(**changes: Any) -> Tool[Any, Any]:
    """A sound tool with some fields changed."""
    sound: dict[str, Any] = {"name": "search", "description": "Search things."}
    return Tool[Any, Any](**{**sound, **changes})


def test_the_brackets_become_the_types() -> None:
    """X2: the type arguments are also the fields."""
    tool = Tool[Params, Result](name="search", description="Search.", handler=run)

    assert (tool.params_type, tool.result_type) == (Params, Result)


def test_the_types_can_be_passed_as_fields() -> None:
    """Without brackets the types are ordinary fields."""
    tool = Tool(name="search", description="S.", params_type=Params, result_type=Result)

    assert tool == Tool[Params, Result](name="search", description="S.")


def test_none_in_the_brackets_means_no_params() -> None:
    """X4: a tool without arguments has None as its params type."""
    assert Tool[None, Result](name="now", description="Now.").params_type is None


def test_any_and_type_variables_say_nothing() -> None:
    """Brackets that name no type leave the fields alone."""
    assert declare(params_type=Params) == Tool[Any, Any](
        name="search", description="Search things.", params_type=Params
    )
    assert Tool[T, Result](name="x", description="X.").params_type is None  # pyright: ignore[reportGeneralTypeIssues]


def test_type_variables_in_the_brackets_can_be_filled_later() -> None:
    """X2: an alias with open arguments captures them once they are filled."""
    alias: Any = Tool[T, Result]  # pyright: ignore[reportGeneralTypeIssues]

    assert alias[Params](name="x", description="X.").params_type is Params


def test_a_wrong_number_of_type_arguments_is_refused() -> None:
    """X2: Tool has two type arguments."""
    with pytest.raises(TypeError, match="Too few arguments"):
        Tool[Params]  # pyright: ignore[reportInvalidTypeArguments]


@pytest.mark.parametrize("params_type", [None, Params, Model, Typed, NewTyped])
def test_params_may_be_a_dataclass_a_model_or_a_typed_dict(params_type: Any) -> None:
    """Every type that has named fields can be the params."""
    assert declare(params_type=params_type).params_type is params_type


@pytest.mark.parametrize("params_type", [str, dict, list[str], Params("x"), "Params"])
def test_params_without_fields_are_refused(params_type: Any) -> None:
    """N33: a params type that has no named fields breaks the contract."""
    with pytest.raises(InvalidTool, match="'search': params_type must be a dataclass"):
        declare(params_type=params_type)


@pytest.mark.parametrize("name", ["a", "web_search", "web-search", "0", "a" * 64])
def test_sound_names_are_taken(name: str) -> None:
    """H9, N11: lower case, digits, dash and underscore, up to 64."""
    assert declare(name=name).name == name


@pytest.mark.parametrize("name", ["", "Search", "a b", "a.b", "ä", "a" * 65, "a\n", None, 5])
def test_unsound_names_are_refused(name: object) -> None:
    """H9, N11: anything else is refused and the rule is named."""
    with pytest.raises(InvalidTool, match=r"must match \[a-z0-9_-\]\{1,64\}"):
        declare(name=name)


def test_a_tool_from_elsewhere_may_have_a_wider_name() -> None:
    """Mounted tools keep the name their server gave them; a wire name is derived later."""
    name = "Server.do_It-" + "x" * 115

    assert declare(name=name, source="mcp:server").name == name
    for wrong in ("", "a b", "a:b", "x" * 129):
        with pytest.raises(InvalidTool):
            declare(name=wrong, source="mcp:server")


@pytest.mark.parametrize("description", ["", "  \n", None, "x" * 1025, "bell \a", "zero \0"])
def test_unsound_descriptions_are_refused(description: object) -> None:
    """N11: a description is text for a model, of a length that providers take."""
    with pytest.raises(InvalidTool, match=r"'search'.*description"):
        declare(description=description)


def test_a_description_may_have_lines_and_any_script() -> None:
    """What can be printed can be said."""
    assert declare(description="Suche.\n\tÜber alles: 検索 " + "x" * 900).description


def test_a_description_from_elsewhere_may_be_longer() -> None:
    """Servers write long descriptions; only what is declared in Python is held to the limit."""
    assert declare(description="x" * 5000, source="mcp:server").description


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, True, "5"])
def test_unsound_timeouts_are_refused(timeout: object) -> None:
    """R18: 0 is not "no limit"; a time limit is a finite number of seconds above 0."""
    with pytest.raises(InvalidTool, match=r"'search': timeout.*for no limit pass None"):
        declare(timeout=timeout)


@pytest.mark.parametrize("timeout", [None, 1, 0.001, 3600.0])
def test_sound_timeouts_are_taken(timeout: float | None) -> None:
    """R18: None is no limit, and any finite number above 0 is one."""
    assert declare(timeout=timeout).timeout == timeout


@pytest.mark.parametrize("version", ["0.0.0", "1.2.3", "1.0.0-rc.1", "1.0.0+build.5"])
def test_semantic_versions_are_taken(version: str) -> None:
    """R50: a version is a semantic version."""
    assert declare(version=version).version == version


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3\n", 1, None])
def test_other_versions_are_refused(version: object) -> None:
    """R50: what cannot be compared is no version."""
    with pytest.raises(InvalidTool, match="'search': version"):
        declare(version=version)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("uses", "other"),
        ("uses", ["other"]),
        ("uses", ("",)),
        ("requires", (1,)),
        ("max_result_chars", 0),
        ("max_result_chars", True),
        ("max_result_chars", 1.5),
        ("cut", "end"),
        ("category", " "),
        ("deprecated", ""),
        ("approval_metadata", {"reason": "x"}),
        ("handler", "run"),
        ("source", ""),
        ("examples", []),
    ],
)
def test_other_unsound_rules_are_refused(field: str, value: object) -> None:
    """A rule that cannot be followed is refused where it is written, by name."""
    with pytest.raises(InvalidTool, match=field):
        declare(**{field: value})


def test_a_refusal_is_a_value_error() -> None:
    """R4: programs that only know ValueError can catch it."""
    with pytest.raises(ValueError, match="name") as caught:
        declare(name="")
    assert isinstance(caught.value, UsageError)


def test_a_tool_is_frozen() -> None:
    """H7: nothing that was checked can change afterwards."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        declare().name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(declare(), "__dict__")


def test_tools_compare_and_hash_by_what_they_declare() -> None:
    """N30: equal declarations are equal, also with examples that have no hash."""
    examples = (ToolExample(description="d", input=Params("x"), output=Result({})),)

    def make() -> Tool[Params, Result]:
        return Tool[Params, Result](name="s", description="S.", examples=examples)

    assert make() == make()
    assert hash(make()) == hash(make())
    assert make() != dataclasses.replace(make(), description="Other.")


def test_the_place_follows_from_the_handler() -> None:
    """A tool's place is derived: what has no handler here is run by the client."""
    assert declare(handler=run).place == "local"
    assert declare().place == "client"


def test_examples_must_be_of_the_tools_types() -> None:
    """N7: an example that could not be a call is refused, with its number and part."""
    good = ToolExample(description="d", input=Params("x"), output=Result({}))

    wrong_input: Any = ToolExample(description="d", input="x", output=Result({}))
    wrong_output: Any = ToolExample(description="d", input=Params("x"), output=5)

    Tool[Params, Result](name="s", description="S.", examples=(good,))
    with pytest.raises(InvalidTool, match=r"input of examples\[1\] must be Params, not str"):
        Tool[Params, Result](name="s", description="S.", examples=(good, wrong_input))
    with pytest.raises(InvalidTool, match=r"output of examples\[0\] must be Result, not int"):
        Tool[Params, Result](name="s", description="S.", examples=(wrong_output,))


@pytest.mark.parametrize(
    ("result_type", "output", "is_taken"),
    [
        (Any, object(), True),
        (str | None, None, True),
        (str | None, 5, False),
        (list[str], ["a"], True),
        (list[str], "a", False),
        (Typed, {"query": "x"}, True),
        (Typed, "x", False),
    ],
)
def test_examples_are_checked_against_types_that_are_no_classes(
    result_type: Any, output: object, is_taken: bool
) -> None:
    """N7: unions, generics and TypedDicts are checked as far as that goes at runtime."""
    examples = (ToolExample(description="d", input=None, output=output),)

    if is_taken:
        declare(result_type=result_type, examples=examples)
    else:
        with pytest.raises(InvalidTool, match="output of examples"):
            declare(result_type=result_type, examples=examples)


def test_an_example_says_what_it_shows() -> None:
    """N13: an example without a description helps nobody."""
    with pytest.raises(InvalidTool, match="description of 1 to 200"):
        ToolExample(description=" ", input=None, output=None)


def test_plain_input_needs_a_schema_and_a_schema_plain_input() -> None:
    """A handler of plain JSON without a schema would run unchecked."""
    with pytest.raises(InvalidTool, match="calling='input' and json_schema go together"):
        declare(calling="input", handler=run)
    with pytest.raises(InvalidTool, match="go together"):
        declare(json_schema={"type": "object"}, handler=run)
    with pytest.raises(InvalidTool, match="calling='keywords' needs a handler"):
        declare(calling="keywords")


def test_a_schema_cannot_be_changed_after_its_check() -> None:
    """R5: what was checked is what is used."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = declare(calling="input", json_schema=schema, handler=run)
    schema["properties"] = {}

    assert tool.json_schema == {"type": "object", "properties": {"a": {"type": "string"}}}
