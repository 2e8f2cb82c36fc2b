"""The names are the conventions' own."""

from __future__ import annotations

import warnings
from types import ModuleType

import pytest

from toolcrib.telemetry import conventions
from toolcrib.tools.identity import Place, ToolRef


@pytest.fixture
def published() -> ModuleType:
    module = "opentelemetry.semconv._incubating.attributes.gen_ai_attributes"
    return pytest.importorskip(module)


def test_every_gen_ai_attribute_is_one_of_the_conventions(published: ModuleType) -> None:
    """R43: a name that the conventions do not have would be found by nobody."""
    known = {value for name, value in vars(published).items() if name.startswith("GEN_AI_")}
    ours = [value for value in vars(conventions).values() if isinstance(value, str)]
    attributes = {each for each in ours if each.startswith("gen_ai.")}

    assert len(attributes) > 10
    assert attributes - {conventions.EXECUTE_TOOL_DURATION} <= known
    assert set(conventions.USAGE.values()) <= known


def test_operations_and_providers_are_those_of_the_conventions(published: ModuleType) -> None:
    """R43: values of closed sets are spelt as the conventions spell them."""
    with warnings.catch_warnings():
        # They are marked as moved; the values are still the same.
        warnings.simplefilter("ignore")
        operations = {each.value for each in published.GenAiOperationNameValues}
        providers = {each.value for each in published.GenAiProviderNameValues}

    assert {conventions.CHAT, conventions.EXECUTE_TOOL, conventions.INVOKE_AGENT} <= operations
    ours = ["openai", "openai-chat", "openai-responses", "anthropic", "bedrock", "google"]
    ours += ["google-vertex", "groq", "mistral", "xai", "azure"]
    assert {conventions.provider_name(each) for each in ours} <= providers


def test_the_stable_name_is_the_stable_one() -> None:
    """R43: `error.type` is in the part of the conventions that no longer changes."""
    stable = pytest.importorskip("opentelemetry.semconv.attributes.error_attributes")

    assert conventions.ERROR_TYPE == stable.ERROR_TYPE
    assert stable.ErrorTypeValues.OTHER.value == conventions.OTHER


def test_an_unknown_provider_keeps_its_name() -> None:
    """A provider that the conventions do not know is told as it is."""
    assert conventions.provider_name("acme") == "acme"


@pytest.mark.parametrize(
    ("place", "capability", "expected"),
    [
        ("local", None, "function"),
        ("sandbox", None, "function"),
        ("client", None, "function"),
        ("provider", "web_search", "extension"),
        ("provider", "file_search", "datastore"),
        ("local", "file_search", "function"),
    ],
)
def test_the_type_of_a_tool_says_who_runs_it(
    place: Place, capability: str | None, expected: str
) -> None:
    """R43: `function` is run here, `extension` by the provider, `datastore` is its stores."""
    tool = ToolRef("t", "python", "1", "d", place)

    assert conventions.tool_type(tool, capability) == expected


def test_buckets_double_from_ten_milliseconds() -> None:
    """R43: the buckets of the duration metric are the conventions'."""
    expected = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48]

    assert list(conventions.DURATION_BUCKETS) == pytest.approx([*expected, 40.96, 81.92])
