"""HostedTool: a provider-run tool with options."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.provider_tools import HostedTool, HostedToolConfig, HostedToolOutput, NativeTool


@dataclass(frozen=True, slots=True)
class Config:
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Output:
    places: tuple[str, ...] = ()


@dataclass
class LooseConfig:
    depth: int = 1


def declare(**changes: Any) -> HostedTool[Any]:
    fields: dict[str, Any] = {
        "kind": "maps",
        "name": "maps",
        "description": "Look at maps.",
        "config": Config(),
        **changes,
    }
    return HostedTool[Any](**fields)


def test_it_has_kind_name_description_and_config() -> None:
    """H7, H8: the four parts, with the kind as an abstract word."""
    tool = HostedTool[Config](
        kind="maps", name="my_maps", description="Look at maps.", config=Config(2)
    )

    assert (tool.kind, tool.name, tool.description) == ("maps", "my_maps", "Look at maps.")
    assert tool.config == Config(2)


def test_it_is_frozen_and_slotted() -> None:
    """H7: nothing can be changed or added after the check."""
    tool = declare()

    for field in ("kind", "config", "name"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(tool, field, "other")
    assert not hasattr(tool, "__dict__")


def test_configs_and_outputs_fit_their_marker_protocols() -> None:
    """H5, H6: a frozen dataclass with slots is one without saying so."""
    assert isinstance(Config(), HostedToolConfig)
    assert isinstance(Config(), HostedToolOutput)


@pytest.mark.parametrize("config", [LooseConfig(), {"depth": 1}, None, Config, "config"])
def test_a_config_that_could_change_is_refused(config: object) -> None:
    """H2, H5, H11: the marker checks nothing, so frozen and dataclass are checked here."""
    with pytest.raises(InvalidTool, match="config must be an instance of a frozen dataclass"):
        declare(config=config)


@pytest.mark.parametrize("name", ["Maps", "a b", "", "a" * 65])
def test_names_follow_the_tools_rule(name: str) -> None:
    """H9: the same rule as for Tool.name."""
    with pytest.raises(InvalidTool, match="name"):
        declare(name=name)


@pytest.mark.parametrize("length", [1, 200])
def test_descriptions_of_allowed_length_are_taken(length: int) -> None:
    """H10: from 1 to 200 characters."""
    assert len(declare(description="x" * length).description) == length


@pytest.mark.parametrize("description", ["", "x" * 201, "Karten für alle"])
def test_other_descriptions_are_refused(description: str) -> None:
    """H10: 1-200 characters, all of them ASCII."""
    with pytest.raises(InvalidTool, match="description"):
        declare(description=description)


@pytest.mark.parametrize("kind", ["", " ", None])
def test_a_kind_must_be_named(kind: object) -> None:
    """H8: adapters look the kind up, so there must be one."""
    with pytest.raises(InvalidTool, match="kind must name a capability"):
        declare(kind=kind)


def test_it_takes_no_params_and_no_handler() -> None:
    """H12: options are in the config, and the provider runs it."""
    with pytest.raises(InvalidTool, match="takes no params"):
        declare(params_type=Config)
    with pytest.raises(InvalidTool, match="takes no handler"):
        declare(handler=lambda params: None)  # pyright: ignore


def test_it_is_a_native_tool_of_the_provider() -> None:
    """X1: one family, so code that knows native tools knows hosted ones."""
    assert isinstance(declare(), NativeTool)
    assert declare().place == "provider"
    assert declare().accepts_overrides is False


def test_it_prepares_without_arguments() -> None:
    """H12: nothing about it looks like a function with parameters."""
    declaration = prepare(declare()).declaration

    assert declaration.parameters["properties"] == {}


def test_tools_with_equal_configs_are_equal() -> None:
    """N30: equality looks at the config; the hash does not need it to have one."""
    assert declare() == declare()
    assert declare() != declare(config=Config(2))
    assert hash(declare()) == hash(declare())


def test_a_hosted_tool_has_a_config_and_an_output() -> None:
    """X2, N2: the output may be left out, and nothing else comes with it."""
    fields: dict[str, Any] = {"kind": "maps", "name": "maps", "description": "Look."}

    short = HostedTool[Config](**fields, config=Config())

    assert short == HostedTool[Config, Output](**fields, config=Config())
    assert short.result_type is None
    with pytest.raises(TypeError):
        HostedTool[Config, Output, Config]  # pyright: ignore[reportInvalidTypeArguments]
