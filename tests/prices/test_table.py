"""What requests and provider-run calls cost: published prices, those of a file, and the unknown."""

from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import UsageError
from toolcrib.prices.cost import Cost, CostPart
from toolcrib.prices.price_list import HostedUse
from toolcrib.prices.table import Prices, PublishedPrices, read_prices

AT = 1_780_000_000.0
"""2026-05-28."""
USAGE = {"input_tokens": 1_000_000, "output_tokens": 100_000, "cached_tokens": 400_000}


def nanos(prices: Prices, provider: str, model: str, usage: dict[str, int] = USAGE) -> int | None:
    part = prices.request(provider, model, usage, AT)
    return None if part is None else part.nanos


def test_the_published_table_has_prices_with_a_version_and_a_day() -> None:
    """A request is priced by provider and model; the figure says which table and which day."""
    part = PublishedPrices().request(
        "openai", "gpt-5.1", {"input_tokens": 1_000, "output_tokens": 100}, AT
    )

    assert part is not None
    assert part.nanos == 2_250_000
    assert part.source is not None
    assert part.source.startswith("genai-prices ")
    assert part.as_of == "2026-05-28"


def test_cached_tokens_have_their_own_price() -> None:
    """Tokens from the cache are part of the input, and cheaper."""
    prices = PublishedPrices()

    all_fresh = nanos(prices, "openai", "gpt-5.1", {**USAGE, "cached_tokens": 0})
    with_cache = nanos(prices, "openai", "gpt-5.1")
    assert all_fresh is not None
    assert with_cache is not None
    assert with_cache < all_fresh


def test_tokens_that_are_written_to_the_cache_have_their_own_price() -> None:
    """$3.75 for a million of them, where other input of the model costs $3."""
    written = {"input_tokens": 100_000, "output_tokens": 0, "cache_write_tokens": 100_000}

    assert nanos(PublishedPrices(), "anthropic", "claude-sonnet-4-5", written) == 375_000_000


def test_a_model_that_nobody_knows_has_no_price() -> None:
    """Unknown is not nothing."""
    assert PublishedPrices().request("openai", "our-own-model-7", USAGE, AT) is None


def test_prices_of_a_file_come_before_the_published_ones(tmp_path: Path) -> None:
    """For a model, or for a model of one provider; other models keep their price."""
    file = tmp_path / "prices.yaml"
    file.write_text(
        "models:\n"
        "  our-own-model-7: {input: 1, output: 2.5, cached_input: 0.5}\n"
        "  openai:gpt-5.1: {input: 0, output: 0}\n"
        "calls: {openai:web_search: 0.5, shell: 2}\n"
        "as_of: 2026-11-01\n"
    )
    prices = read_prices(file)

    # 0.6 M fresh at $1, 0.4 M cached at $0.5, 0.1 M out at $2.5.
    own = prices.request("chat", "our-own-model-7", USAGE, AT)
    assert own == CostPart(
        "tokens", "our-own-model-7", 1_100_000, 1_050_000_000, "prices.yaml", "2026-11-01"
    )
    assert nanos(prices, "openai", "gpt-5.1") == 0
    assert (nanos(prices, "azure", "gpt-5.1") or 0) > 0
    assert call_dollars(prices, "web_search") == 0.5
    assert call_dollars(prices, "shell") == 2.0
    assert call_dollars(prices, "file_search") == 0.0025


def call_dollars(prices: Prices, kind: str, provider: str = "openai", **facts: Any) -> float | None:
    model = {
        "openai": "gpt-5-2025-08-07",
        "anthropic": "claude-sonnet-4-5-20250929",
        "google": "gemini-2.5-pro",
        "xai": "grok-4-fast-reasoning",
        "azure": "gpt-5-mini",
    }.get(provider, "")
    use = HostedUse(provider=provider, model=model, kind=kind, **facts)
    part = prices.call(use, AT)
    return None if part is None else part.dollars


@pytest.mark.parametrize(
    ("provider", "kind", "facts", "dollars"),
    [
        # $10 for a thousand searches, $2.50 for a thousand file searches.
        ("openai", "web_search", {}, 0.01),
        ("azure", "web_search", {}, 0.01),
        ("openai", "file_search", {}, 0.0025),
        # $0.03, $0.12, $0.48 and $1.92 for a session of a container, by its memory.
        ("openai", "code_interpreter", {}, 0.03),
        ("openai", "code_interpreter", {"memory_limit": "4g"}, 0.12),
        ("openai", "code_interpreter", {"memory_limit": "16g"}, 0.48),
        ("openai", "shell", {"memory_limit": "64g"}, 1.92),
        ("openai", "code_interpreter", {"memory_limit": "7g"}, None),
        ("openai", "mcp", {}, 0.0),
        ("openai", "tool_search", {}, 0.0),
        # $0.009, $0.034 and $0.133 for an image of 1024 by 1024 pixels.
        (
            "openai",
            "image_generation",
            {"image_model": "gpt-image-1.5", "image_quality": "medium", "image_size": "1024x1024"},
            0.033792,
        ),
        (
            "openai",
            "image_generation",
            {"image_model": "gpt-image-1.5", "image_quality": "high", "image_size": "1024x1024"},
            0.13312,
        ),
        (
            "openai",
            "image_generation",
            {"image_model": "gpt-image-9", "image_quality": "high", "image_size": "1024x1024"},
            None,
        ),
        ("openai", "something_new", {}, None),
        ("anthropic", "web_search", {}, 0.01),
        ("anthropic", "web_fetch", {}, 0.0),
        # $0.05 an hour, five minutes at least.
        ("anthropic", "code_interpreter", {}, 0.004166667),
        # $35 for a thousand grounded prompts.
        ("google", "web_search", {}, 0.035),
        ("google", "code_interpreter", {}, 0.0),
        ("google", "file_search", {}, 0.0),
        # $5 for a thousand calls, $2.50 for a thousand searches in collections.
        ("xai", "web_search", {}, 0.005),
        ("xai", "code_interpreter", {}, 0.005),
        ("xai", "file_search", {}, 0.0025),
        ("groq", "web_search", {}, None),
    ],
)
def test_a_provider_run_call_has_the_price_of_the_price_list(
    provider: str, kind: str, facts: dict[str, str], dollars: float | None
) -> None:
    """By the published table, else by the dated list; what neither has is unknown."""
    assert call_dollars(PublishedPrices(), kind, provider, **facts) == dollars


def test_every_figure_of_the_dated_list_says_its_source_and_day() -> None:
    """Prices change: a figure without its day cannot be checked."""
    use = HostedUse(provider="openai", model="gpt-5", kind="code_interpreter", container_id="c1")

    part = PublishedPrices().call(use, AT)

    assert part == CostPart("container", "c1", 1, 30_000_000, "openai price list", "2026-08-04")


def test_costs_add_up_exactly_and_keep_what_is_unknown() -> None:
    """The sum is of what has a price; what has none is named, never counted as nothing."""
    tokens = CostPart("tokens", "m", 10, 1, "table", "2026-05-28")
    search = CostPart("web_search", "openai", 1, None)
    cost = Cost((tokens,)) + Cost((tokens, search)) + Cost((search,))

    assert cost.nanos == 2
    assert cost.parts == (
        CostPart("tokens", "m", 20, 2, "table", "2026-05-28"),
        CostPart("web_search", "openai", 2, None),
    )
    assert cost.unpriced == (CostPart("web_search", "openai", 2, None),)
    assert Cost((search,)).dollars is None
    assert Cost().dollars is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("model: {}", "write `models:`"),
        ("models: {m: {input: 1}}", "m: write `input` and `output`"),
        ("models: {m: {input: 1, output: x}}", "'x' is no price"),
        ("models: {m: {input: -1, output: 1}}", "-1 is no price"),
        ("models: {m: {input: 1, output: true}}", "True is no price"),
        ("models: [", "cannot be read"),
        ("calls: {web_search: cheap}", "'cheap' is no price"),
        ("calls: 3", "calls: write one entry"),
    ],
)
def test_a_wrong_file_is_refused_with_its_fault(tmp_path: Path, text: str, fault: str) -> None:
    """The fault names the file, the model and what to write."""
    file = tmp_path / "prices.yaml"
    file.write_text(text)

    with pytest.raises(UsageError, match=r"prices\.yaml: ") as raised:
        read_prices(file)
    assert fault in str(raised.value)
