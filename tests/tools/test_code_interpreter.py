"""Code interpreter: its options, its output and its factory."""

import dataclasses
from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    ExistingContainer,
    GeneratedFile,
    NetworkPolicy,
    code_interpreter_tool,
)
from toolcrib.tools.prepared_tool import prepare


def test_the_default_is_a_new_container_with_one_gigabyte() -> None:
    """C13, C14: without options the provider makes a container of the smallest tier."""
    assert CodeInterpreterConfig().container == AutoContainer(memory_limit="1g", file_ids=())


@pytest.mark.parametrize("limit", ["1g", "4g", "16g", "64g"])
def test_the_four_tiers_are_taken(limit: Any) -> None:
    """C14: exactly these."""
    assert AutoContainer(memory_limit=limit).memory_limit == limit
    assert ExistingContainer("cntr_1", memory_limit=limit).memory_limit == limit


@pytest.mark.parametrize("limit", ["2g", "1G", "", "1", 1, None])
def test_other_tiers_are_refused(limit: Any) -> None:
    """C14, C15: before any request is made."""
    with pytest.raises(InvalidTool, match="one of 1g, 4g, 16g, 64g"):
        AutoContainer(memory_limit=limit)


def test_other_tiers_are_refused_for_a_known_container() -> None:
    """C15: also where the tier is only checked and never sent."""
    wrong: Any = "2g"

    with pytest.raises(InvalidTool, match=r"ExistingContainer\.memory_limit"):
        ExistingContainer("cntr_1", memory_limit=wrong)
    assert ExistingContainer("cntr_1").memory_limit is None


@pytest.mark.parametrize("container_id", ["", "  ", None, 5])
def test_a_container_must_be_named(container_id: Any) -> None:
    """C15: a blank or missing id is refused before any request."""
    with pytest.raises(InvalidTool, match=r"ExistingContainer\.id"):
        ExistingContainer(container_id)


@pytest.mark.parametrize("file_ids", [["file_1"], "file_1", ("",), (5,), ("f",) * 51])
def test_unsound_file_ids_are_refused(file_ids: Any) -> None:
    """C13: a tuple of ids, and no more than the provider takes."""
    with pytest.raises(InvalidTool, match=r"AutoContainer\.file_ids"):
        AutoContainer(file_ids=file_ids)


def test_a_network_policy_names_the_domains_in_reach() -> None:
    """No domain means no network; a domain is checked like any other."""
    assert AutoContainer(network_policy=NetworkPolicy()).network_policy == NetworkPolicy(())
    with pytest.raises(InvalidTool, match="allowed_domains"):
        NetworkPolicy(("https://example.org",))
    wrong: Any = {"type": "disabled"}
    with pytest.raises(InvalidTool, match="network_policy"):
        AutoContainer(network_policy=wrong)


def test_a_container_is_one_of_the_two_kinds() -> None:
    """C13: nothing else can say where code runs."""
    wrong: Any = "cntr_1"

    with pytest.raises(InvalidTool, match="AutoContainer or an ExistingContainer"):
        CodeInterpreterConfig(container=wrong)


@pytest.mark.parametrize(
    "made", [AutoContainer(), ExistingContainer("c"), CodeInterpreterConfig(), NetworkPolicy()]
)
def test_options_are_frozen_and_slotted(made: Any) -> None:
    """H2: options cannot change after their check."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(made)[0].name, "x")
    assert not hasattr(made, "__dict__")


def test_the_factory_makes_a_tool_without_params() -> None:
    """C16, H41: an empty schema, and a description that says who writes the code."""
    tool = code_interpreter_tool()

    assert (tool.kind, tool.name) == ("code_interpreter", "code_interpreter")
    assert "Python" in tool.description
    assert "model writes" in tool.description
    assert prepare(tool).declaration.parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_the_factory_takes_config_and_name() -> None:
    """H41: the same recipe as for web search."""
    config = CodeInterpreterConfig(ExistingContainer("cntr_1"))

    assert code_interpreter_tool(config, name="python").config == config


def test_a_result_may_know_little() -> None:
    """C24: providers that give no stderr or exit code leave them unknown, not empty."""
    result = CodeInterpreterResult(code="print(1)", stdout="1\n")

    assert (result.stderr, result.exit_code, result.is_inferred) == (None, None, False)


def test_a_result_names_its_files() -> None:
    """C29: container, file and name, enough to fetch the file."""
    made = GeneratedFile("cntr_1", "cfile_1", "plot.png")

    assert CodeInterpreterResult(files=(made,)).files[0].file_id == "cfile_1"


def test_a_result_renders_what_was_printed() -> None:
    """C17: the text of the run; a traceback that is already in it is not repeated."""
    assert CodeInterpreterResult(stdout="1").render() == "1"
    assert CodeInterpreterResult(stdout="1", stderr="warning").render() == "1\nwarning"
    assert CodeInterpreterResult(stdout="1 boom", stderr="boom", is_inferred=True).render() == (
        "1 boom"
    )
