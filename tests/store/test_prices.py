"""What requests to models cost: the published table, prices of a file, and what nobody knows."""

from pathlib import Path

import pytest

from toolcrib.errors import UsageError
from toolcrib.store.prices import PublishedPrices, read_prices

AT = 1_780_000_000.0
USAGE = {"input_tokens": 1_000_000, "output_tokens": 100_000, "cached_tokens": 400_000}


def test_the_published_table_has_prices_with_a_version() -> None:
    """A request is priced by provider and model, and the table says which it is."""
    prices = PublishedPrices()

    nanos = prices.nanos("openai", "gpt-5.1", {"input_tokens": 1_000, "output_tokens": 100}, AT)
    assert nanos == 2_250_000
    assert prices.name.startswith("genai-prices ")


def test_cached_tokens_have_their_own_price() -> None:
    """Tokens from the cache are part of the input, and cheaper."""
    prices = PublishedPrices()

    all_fresh = prices.nanos("openai", "gpt-5.1", {**USAGE, "cached_tokens": 0}, AT)
    with_cache = prices.nanos("openai", "gpt-5.1", USAGE, AT)
    assert all_fresh is not None
    assert with_cache is not None
    assert with_cache < all_fresh


def test_a_model_that_nobody_knows_has_no_price() -> None:
    """Unknown is not nothing."""
    assert PublishedPrices().nanos("openai", "our-own-model-7", USAGE, AT) is None


def test_prices_of_a_file_come_before_the_published_ones(tmp_path: Path) -> None:
    """For a model, or for a model of one provider; other models keep their price."""
    file = tmp_path / "prices.yaml"
    file.write_text(
        "models:\n"
        "  our-own-model-7: {input: 1, output: 2.5, cached_input: 0.5}\n"
        "  openai:gpt-5.1: {input: 0, output: 0}\n"
    )
    prices = read_prices(file)

    # 0.6 M fresh at $1, 0.4 M cached at $0.5, 0.1 M out at $2.5.
    assert prices.nanos("chat", "our-own-model-7", USAGE, AT) == 1_050_000_000
    assert prices.nanos("openai", "gpt-5.1", USAGE, AT) == 0
    assert (prices.nanos("azure", "gpt-5.1", USAGE, AT) or 0) > 0
    assert prices.name.startswith("prices.yaml + genai-prices ")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("model: {}", "write `models:`"),
        ("models: {m: {input: 1}}", "m: write `input` and `output`"),
        ("models: {m: {input: 1, output: x}}", "'x' is no price"),
        ("models: {m: {input: -1, output: 1}}", "-1 is no price"),
        ("models: {m: {input: 1, output: true}}", "True is no price"),
        ("models: [", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_with_its_fault(tmp_path: Path, text: str, fault: str) -> None:
    """The fault names the file, the model and what to write."""
    file = tmp_path / "prices.yaml"
    file.write_text(text)

    with pytest.raises(UsageError, match=r"prices\.yaml: ") as raised:
        read_prices(file)
    assert fault in str(raised.value)
