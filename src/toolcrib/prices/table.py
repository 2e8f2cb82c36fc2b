"""Tables of prices: the published one, and that of a project, which comes before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from toolcrib.errors import UsageError
from toolcrib.prices.cost import CostPart, nanos_of
from toolcrib.prices.price_list import image_tokens, listed_part

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

    from toolcrib.prices.price_list import HostedUse


class Prices(Protocol):
    """A table of prices. `at` is in seconds since the epoch: prices change."""

    @property
    def name(self) -> str:
        """Which table it is, with its version or date."""
        ...

    def request(
        self, provider: str, model: str, usage: Mapping[str, int], at: float
    ) -> CostPart | None:
        """The cost of the tokens of one request to a model; None when it is not known."""
        ...

    def call(self, use: HostedUse, at: float) -> CostPart | None:
        """The cost of a provider-run call, besides tokens; None when it is not known."""
        ...


class _UnknownPrices:
    name = "none"

    def request(
        self, provider: str, model: str, usage: Mapping[str, int], at: float
    ) -> CostPart | None:
        return None

    def call(self, use: HostedUse, at: float) -> CostPart | None:
        return None


UNKNOWN_PRICES: Final[Prices] = _UnknownPrices()
"""No table: every cost is unknown."""

_PROVIDERS: Final = {
    "google_interactions": "google",
    "google-gla": "google",
    "google-vertex": "google",
    "xai": "x-ai",
}
"""The names that tables have for providers, where they are not ours."""

_SEARCHES: Final = {
    "web_search": "web_searches",
    "x_search": "social_searches",
    "file_search": "storage_searches",
    "code_interpreter": "code_executions",
}
"""The units in which the published table prices the calls of a kind."""


class PublishedPrices:
    """The prices that `genai-prices` has, by the day, and our dated list of what it lacks."""

    def __init__(self) -> None:
        from genai_prices import __version__

        self.name = f"genai-prices {__version__}"

    def request(
        self, provider: str, model: str, usage: Mapping[str, int], at: float
    ) -> CostPart | None:
        """The cost by the table; None when it has no such model."""
        tokens = {
            "input_tokens": usage.get("input_tokens", 0),
            "output_tokens": usage.get("output_tokens", 0),
            "cache_read_tokens": usage.get("cached_tokens", 0),
            "cache_write_tokens": usage.get("cache_write_tokens", 0),
        }
        price = _calculated(provider, model, tokens, at)
        if price is None:
            return None
        count = tokens["input_tokens"] + tokens["output_tokens"]
        return CostPart("tokens", model, count, nanos_of(price.total_price), self.name, _day(at))

    def call(self, use: HostedUse, at: float) -> CostPart | None:
        """The cost by the published table, else by the dated list."""
        if use.kind == "image_generation":
            return self._image(use, at)
        return self._billed_call(use, at) or listed_part(use, _table_name(use.provider))

    def _billed_call(self, use: HostedUse, at: float) -> CostPart | None:
        unit = _SEARCHES.get(use.kind)
        one = None if unit is None else _calculated(use.provider, use.model, {unit: 1}, at)
        # Without a price of the unit, the table says that it costs nothing.
        if one is None or not one.total_price:
            return None
        nanos = nanos_of(one.total_price * use.quantity)
        return CostPart(use.kind, use.provider, use.quantity, nanos, self.name, _day(at))

    def _image(self, use: HostedUse, at: float) -> CostPart | None:
        tokens = image_tokens(use)
        if tokens is None or use.image_model is None:
            return None
        usage = {"output_tokens": tokens, "output_image_tokens": tokens}
        price = _calculated(use.provider, use.image_model, usage, at)
        if price is None:
            return None
        nanos = nanos_of(price.total_price * use.quantity)
        return CostPart("image", use.image_model, use.quantity, nanos, self.name, _day(at))


def _calculated(
    provider: str, model: str, usage: Mapping[str, int], at: float
) -> PriceCalculation | None:
    from genai_prices import Usage, calc_price

    day = datetime.fromtimestamp(at, UTC)
    for provider_id in (_table_name(provider), None):
        try:
            return calc_price(
                Usage(**usage), model, provider_id=provider_id, genai_request_timestamp=day
            )
        except (LookupError, ValueError):
            continue
    return None


def _table_name(provider: str) -> str:
    return _PROVIDERS.get(provider, provider)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Dollars for a million tokens of a model."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    """None: as any other input."""

    def dollars(self, usage: Mapping[str, int]) -> Decimal:
        """The cost of a request."""
        cached = usage.get("cached_tokens", 0)
        fresh = max(0, usage.get("input_tokens", 0) - cached)
        cached_price = self.input if self.cached_input is None else self.cached_input
        total = fresh * self.input + cached * cached_price
        total += usage.get("output_tokens", 0) * self.output
        return total / 1_000_000


@dataclass(frozen=True, slots=True)
class OwnPrices:
    """The prices of a project, before those of another table."""

    name: str
    models: Mapping[str, ModelPrice]
    calls: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    """Dollars for one provider-run call, by kind, or by provider and kind: `openai:web_search`."""
    others: Prices = field(default=UNKNOWN_PRICES)
    as_of: str | None = None

    def request(
        self, provider: str, model: str, usage: Mapping[str, int], at: float
    ) -> CostPart | None:
        """The cost by the project's own price, or by the other table."""
        own = self.models.get(f"{provider}:{model}") or self.models.get(model)
        if own is None:
            return self.others.request(provider, model, usage, at)
        count = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
        nanos = nanos_of(own.dollars(usage))
        return CostPart("tokens", model, count, nanos, self.name, self.as_of)

    def call(self, use: HostedUse, at: float) -> CostPart | None:
        """The cost by the project's own price, or by the other table."""
        own = self.calls.get(f"{use.provider}:{use.kind}", self.calls.get(use.kind))
        if own is None:
            return self.others.call(use, at)
        nanos = nanos_of(own * use.quantity)
        return CostPart(use.kind, use.provider, use.quantity, nanos, self.name, self.as_of)


MOST_TOKENS: Final = 10**9
"""No request takes more: what counts more has no price."""


def request_part(
    prices: Prices, provider: str, model: str, usage: Mapping[str, int], at: float
) -> CostPart | None:
    """The cost of the tokens of a request, whose counts are what a provider sent; None when it sent
    none: a request without any token would be no request.
    """
    if not all(0 <= count <= MOST_TOKENS for count in usage.values()):
        return None
    if usage and not any(usage.values()):
        return None
    return prices.request(provider, model, usage, at)


@cache
def published_prices() -> Prices:
    """The published table if it is installed (the extra `prices`), else one without prices."""
    try:
        return PublishedPrices()
    except ImportError:
        return UNKNOWN_PRICES


def read_prices(path: Path) -> Prices:
    """The prices of a file, before the published ones. Raises `UsageError` that names each fault.

    The file has one entry for each model, with dollars for a million tokens, and one for each kind
    of provider-run call, with dollars for a call:
    `models: {llama-3: {input: 0.1, output: 0.4, cached_input: 0.05}}`,
    `calls: {openai:web_search: 0.01}`; `as_of: 2026-11-01` says for which day they are.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: the prices cannot be read: {error}") from None
    mapping = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    if not mapping or not mapping.keys() <= {"models", "calls", "as_of"}:
        raise UsageError(
            f"{path}: write `models:` with an entry for each model, `calls:` with one for each "
            "kind of provider-run call, `as_of:` with their day, and nothing else"
        )
    models = {
        name: _model_price(path, name, entry)
        for name, entry in _entries(path, mapping, "models").items()
    }
    calls = {
        name: _dollars(path, name, entry)
        for name, entry in _entries(path, mapping, "calls").items()
    }
    as_of = mapping.get("as_of")
    return OwnPrices(
        path.name, models, calls, published_prices(), None if as_of is None else str(as_of)
    )


def _entries(path: Path, mapping: Mapping[str, Any], key: str) -> dict[str, object]:
    entries = mapping.get(key, {})
    if not isinstance(entries, dict):
        raise UsageError(f"{path}: {key}: write one entry for each name")
    return {str(name): entry for name, entry in cast("dict[Any, object]", entries).items()}


def _model_price(path: Path, model: str, entry: object) -> ModelPrice:
    facts = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    keys = {"input", "output", "cached_input"}
    if not {"input", "output"} <= facts.keys() <= keys:
        raise UsageError(
            f"{path}: {model}: write `input` and `output`, and `cached_input` if it has a price of "
            "its own: dollars for a million tokens"
        )
    prices = {name: _dollars(path, model, value) for name, value in facts.items()}
    return ModelPrice(prices["input"], prices["output"], prices.get("cached_input"))


def _dollars(path: Path, name: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise UsageError(f"{path}: {name}: {value!r} is no price; write a number of dollars")
    return Decimal(str(value))
