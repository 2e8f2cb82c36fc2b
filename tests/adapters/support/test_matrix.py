"""The support matrix: complete, honest about limits, and the same in the documentation."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.support.option_samples import CONFIGS, SAMPLES, Sample
from toolcrib.adapters.openai.adapter import default_client_codecs, default_codecs
from toolcrib.adapters.support import MATRIX, PROVIDERS, check, options_of, supports
from toolcrib.adapters.support.page import BEGIN, END, markdown, updated
from toolcrib.adapters.support.table import Cell
from toolcrib.errors import UnsupportedOption, UsageError
from toolcrib.tools.provider_tools import HostedTool, ProviderTool
from toolcrib.tools.web_search import DomainFilter, GeoHint, WebSearchConfig

ROOT = Path(__file__).parents[3]
# What decides where a tool's files are here, and nothing on a provider's side.
LOCAL_FIELDS = {
    "account",
    "max_bytes",
    "max_entries",
    "max_total_bytes",
    "protected",
    "root",
    "server_label",
}


def test_every_kind_has_a_cell_for_every_provider() -> None:
    """No combination is left to chance."""
    for kind, row in MATRIX.items():
        assert set(row.tool) == set(PROVIDERS), kind


def test_every_option_has_a_cell_where_the_kind_exists() -> None:
    """A missing cell would be a no without a reason."""
    for kind, row in MATRIX.items():
        offered = {name for name, cell in row.tool.items() if cell.is_supported}
        for option, cells in row.options.items():
            assert set(cells) == offered, (kind, option)


def test_every_no_says_why_and_what_to_do() -> None:
    """A refusal that does not help is only half an error."""
    refused = [
        cell
        for row in MATRIX.values()
        for cells in (row.tool, *row.options.values())
        for cell in cells.values()
        if not cell.is_supported
    ]

    assert all("; " in cell.note for cell in refused)


@pytest.mark.parametrize(("kind", "config_type"), CONFIGS)
def test_every_field_of_a_config_is_in_the_matrix(kind: str, config_type: type[Any]) -> None:
    """An option that is added to a tool must be thought about for every provider."""
    options = {option.partition(".")[0] for option in MATRIX[kind].options}
    fields = {each.name for each in dataclasses.fields(config_type)} - LOCAL_FIELDS
    if config_type.__name__.startswith("Handler"):
        options = {option.removeprefix("local.") for option in MATRIX[kind].options}

    assert fields <= options


def test_every_option_has_a_sample() -> None:
    """The tables below and those of the codecs prove each cell, so none may be forgotten."""
    told = {(sample.kind, option) for sample in SAMPLES for option in options_of(sample.config)}

    assert told >= {(kind, option) for kind, row in MATRIX.items() for option in row.options}


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_only_what_differs_from_the_default_counts_as_set(sample: Sample) -> None:
    """An option that nobody asked for must refuse nothing."""
    assert sample.option in options_of(sample.config)
    assert set(options_of(sample.config)) <= {sample.option, *sample.along}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_a_no_is_one_error_that_names_everything(sample: Sample, provider: str) -> None:
    """H42, N14: kind, option and provider are in the error, and the reason is that of the cell."""
    row, options = MATRIX[sample.kind], options_of(sample.config)
    asked: dict[str | None, Any] = {None: None, **options}
    reasons = [row.cell(provider, option).refusal(value) for option, value in asked.items()]

    if not any(reasons):
        check(provider, sample.kind, options)
        assert supports(provider, sample.kind, options)
        return
    with pytest.raises(UnsupportedOption) as caught:
        check(provider, sample.kind, options)
    assert (caught.value.kind, caught.value.provider) == (sample.kind, provider)
    assert caught.value.option in {*options, "anything"}
    for said in (sample.kind, provider, caught.value.option, next(filter(None, reasons))):
        assert said in str(caught.value)
    assert not supports(provider, sample.kind, options)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_the_column_of_our_own_adapter_is_true(sample: Sample) -> None:
    """H30: what the matrix promises for `openai` is what its codecs put on the wire."""
    hosted, client_run = default_codecs(), default_client_codecs()
    if not MATRIX[sample.kind].cell("openai").is_supported:
        assert sample.kind not in {*hosted, *(codec.kind for codec in client_run)}
    elif sample.option.startswith("local") or sample.kind not in hosted:
        (codec,) = [each for each in client_run if isinstance(sample.config, each.config_type)]
        entry = codec.serialize(_bound(sample.config))
        assert sample.plain is None or entry != codec.serialize(_bound(sample.plain))
    elif not MATRIX[sample.kind].cell("openai", sample.option).is_supported:
        with pytest.raises(UnsupportedOption, match=sample.option):
            hosted[sample.kind].serialize(_tool(sample.kind, sample.config))
    else:
        entry = hosted[sample.kind].serialize(_tool(sample.kind, sample.config))
        assert sample.plain is None or entry != hosted[sample.kind].serialize(
            _tool(sample.kind, sample.plain)
        )


def _tool(kind: str, config: Any) -> HostedTool[Any]:
    return HostedTool(kind=kind, name="t", description="A tool.", config=config)


def _bound(config: Any) -> ProviderTool[Any, Any, Any]:
    def run(params: Any) -> Any: ...

    return ProviderTool(
        name="t", description="A tool.", provider="openai", config=config, handler=run
    )


def test_limits_are_part_of_a_yes() -> None:
    """A list that is too long or a word that is unknown is refused like any option."""
    six = tuple(f"d{n}.org" for n in range(6))
    options = options_of(WebSearchConfig(DomainFilter(allowed=six)))

    assert supports("openai-responses", "web_search", options)
    with pytest.raises(UnsupportedOption, match=r"xai.*domain_filter\.allowed.*at most 5, not 6"):
        check("xai", "web_search", options)
    with pytest.raises(UnsupportedOption, match=r"size.*1024x1024.*not '64x64'"):
        check("openai-responses", "image_generation", {"size": "64x64"})
    assert Cell(True, most=3).refusal(4) == "it takes at most 3, not 4"


def test_both_lists_at_once_are_an_option_of_their_own() -> None:
    """H17: whether allowed and blocked domains go together is for the provider to say."""
    options = options_of(WebSearchConfig(DomainFilter(("a.org",), ("b.org",))))

    assert supports("groq", "web_search", options)
    with pytest.raises(UnsupportedOption, match=r"anthropic.*domain_filter\.both.*give one list"):
        check("anthropic", "web_search", options)


def test_an_empty_place_is_an_option_too() -> None:
    """H36: to say 'nowhere' is not the same as to say nothing."""
    assert options_of(WebSearchConfig(geo_hint=GeoHint())) == {"geo_hint.empty": True}
    assert options_of(WebSearchConfig(geo_hint=None)) == {}


def test_nothing_unknown_is_let_through() -> None:
    """A kind, an option or a provider that nobody wrote down is refused."""
    with pytest.raises(UnsupportedOption, match="the matrix has web_search"):
        check("anthropic", "teleport", {})
    with pytest.raises(UnsupportedOption, match="colour"):
        check("anthropic", "web_search", {"colour": "red"})
    with pytest.raises(UsageError, match="unknown provider 'acme'"):
        check("acme", "web_search", {})


def test_a_config_of_somebody_elses_sets_nothing() -> None:
    """A kind of the user's own has its own codec, which does its own checks."""

    @dataclasses.dataclass(frozen=True)
    class Own:
        level: int = 3

    assert options_of(Own()) == {}


def test_the_documentation_has_the_matrix_of_today() -> None:
    """The page is made from the data: run `toolcrib support --update docs/providers.md`."""
    page = (ROOT / "docs" / "providers.md").read_text("utf-8")

    assert page == updated(page)
    assert markdown() in page


def test_a_page_without_its_marks_is_left_alone() -> None:
    """Nothing is overwritten by guess."""
    assert updated(f"a {BEGIN} old {END} b").startswith(f"a {BEGIN}\n\n### web_search")
    for page in ("", BEGIN, END, f"{END} {BEGIN}"):
        with pytest.raises(ValueError, match="the page needs the lines"):
            updated(page)
