"""Every cell of the support matrix, against the codecs and pydantic-ai's own native tools."""

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from pydantic import TypeAdapter
from pydantic_ai.native_tools import NATIVE_TOOL_TYPES, AbstractNativeTool
from pydantic_ai.settings import ModelSettings
from pydantic_core import to_json

from tests.adapters.support.option_samples import SAMPLES, Sample
from toolcrib.adapters.codec import Codec, Contribution
from toolcrib.adapters.pydantic_ai.codecs.registry import default_client_codecs, default_codecs
from toolcrib.adapters.support import MATRIX, PROVIDERS, options_of, supports
from toolcrib.errors import UnsupportedOption
from toolcrib.toolkits.apply_patch import apply_patch_tool
from toolcrib.toolkits.memory import memory_tool
from toolcrib.tools.provider_tools import HostedTool

THROUGH_PYDANTIC_AI = [each for each in PROVIDERS if each != "openai"]
# Client-run kinds of OpenAI's are bound to its adapter, so no codec is ever asked about them.
HOSTED = [
    sample
    for sample in SAMPLES
    if not sample.option.startswith("local") and sample.kind not in ("apply_patch", "computer")
]


def contribution(kind: str, config: Any, provider: str) -> Contribution:
    tool = HostedTool(kind=kind, name="t", description="A tool.", config=config)
    codec = default_codecs(provider)[kind]
    return codec.contribute(tool) if isinstance(codec, Codec) else _never(codec.serialize(tool))


def _never(entry: Mapping[str, Any]) -> Contribution:
    raise AssertionError(f"this kind is offered nowhere, yet there is {entry}")


def native(entry: Mapping[str, Any]) -> AbstractNativeTool:
    """The native tool, read from JSON as the adapter does: a field that it does not have is an
    error, and a time is no text.
    """
    fields = {name: value for name, value in entry.items() if name != "type"}
    reader = TypeAdapter[AbstractNativeTool](NATIVE_TOOL_TYPES[entry["type"]])
    return reader.validate_python(fields, extra="forbid")


@pytest.mark.parametrize("provider", THROUGH_PYDANTIC_AI)
@pytest.mark.parametrize("sample", HOSTED, ids=str)
def test_a_cell_keeps_its_word(sample: Sample, provider: str) -> None:
    """H42, N14: a no raises before any request and names kind, option and provider; a yes reaches
    pydantic-ai's own tool, or the settings of its model.
    """
    options = options_of(sample.config)
    if not supports(provider, sample.kind, options):
        with pytest.raises(UnsupportedOption) as caught:
            contribution(sample.kind, sample.config, provider)
        assert (caught.value.kind, caught.value.provider) == (sample.kind, provider)
        assert caught.value.option in {*options, "anything"}
        return
    made = contribution(sample.kind, sample.config, provider)
    (entry,) = made.tools
    sent = to_json(dataclasses.asdict(native(entry))).decode() + repr(made.body)
    assert all(each in sent for each in values(options))
    if sample.plain is not None:
        plain = contribution(sample.kind, sample.plain, provider)
        assert (made.tools, made.body) != (plain.tools, plain.body)


def values(options: Mapping[str, Any]) -> list[str]:
    """What the options say, in words and numbers."""
    found: list[Any] = []
    for value in options.values():
        match value:
            case bool():
                pass
            case Mapping():
                found += [*value, *value.values()]
            case tuple():
                found += value
            case datetime():
                found.append(to_json(value).decode())
            case _:
                found.append(value)
    return [str(each) for each in found]


@pytest.mark.parametrize("provider", THROUGH_PYDANTIC_AI)
def test_settings_are_those_of_the_models(provider: str) -> None:
    """A setting that no model reads would be dropped without a word."""
    known = {name for settings in _settings_types() for name in settings.__annotations__}
    for sample in HOSTED:
        if supports(provider, sample.kind, options_of(sample.config)):
            body = contribution(sample.kind, sample.config, provider).body
            assert body.keys() <= known


def _settings_types() -> list[type[Any]]:
    from pydantic_ai.models.anthropic import AnthropicModelSettings
    from pydantic_ai.models.openai import OpenAIChatModelSettings, OpenAIResponsesModelSettings
    from pydantic_ai.models.xai import XaiModelSettings

    return [
        ModelSettings,
        AnthropicModelSettings,
        OpenAIChatModelSettings,
        OpenAIResponsesModelSettings,
        XaiModelSettings,
    ]


@pytest.mark.parametrize("provider", THROUGH_PYDANTIC_AI)
def test_every_kind_of_the_matrix_has_a_codec(provider: str, tmp_path: Any) -> None:
    """H31: a kind is never unknown, it is at most refused with a reason."""
    hosted, client_run = default_codecs(provider), default_client_codecs(provider)

    theirs = {"apply_patch", "computer"}
    assert {*hosted, *(codec.kind for codec in client_run)} >= MATRIX.keys() - theirs
    assert all(codec.kind == kind for kind, codec in hosted.items())
    assert not any(codec.speaks_for(apply_patch_tool(tmp_path)) for codec in client_run)


@pytest.mark.parametrize("provider", THROUGH_PYDANTIC_AI)
def test_memory_is_offered_where_it_is_defined(provider: str, tmp_path: Any) -> None:
    """N14: elsewhere the error names the kind and the provider."""
    tool = memory_tool(tmp_path)
    (codec,) = default_client_codecs(provider)
    assert codec.speaks_for(tool)

    if supports(provider, "memory"):
        assert native(codec.serialize(tool)).kind == "memory"
    else:
        with pytest.raises(UnsupportedOption, match=f"{provider} cannot do anything of memory"):
            codec.serialize(tool)


def test_an_unknown_provider_can_be_read_but_not_asked() -> None:
    """A model that the matrix does not know still has its calls recorded."""
    codecs = default_codecs("acme")
    tool = HostedTool(kind="web_search", name="t", description="A tool.", config=HOSTED[0].config)

    assert codecs["web_search"].parse_output([], tool) is None
    with pytest.raises(ValueError, match="unknown provider 'acme'"):
        codecs["web_search"].serialize(tool)
