"""What requests to models cost: prices of a maintained table, and those of a file of the project.

A price that nobody knows stays unknown; it is never nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, cast

from toolcrib.errors import UsageError

_NANO: Final = Decimal(1_000_000_000)


class Prices(Protocol):
    """A table of prices."""

    @property
    def name(self) -> str:
        """Which table it is, with its version or date; rows of the index keep it."""
        ...

    def nanos(self, provider: str, model: str, usage: Mapping[str, int], at: float) -> int | None:
        """The cost of a request in billionths of a US dollar; None when it is not known."""
        ...


class _UnknownPrices:
    name = "none"

    def nanos(self, provider: str, model: str, usage: Mapping[str, int], at: float) -> int | None:
        return None


UNKNOWN_PRICES: Final[Prices] = _UnknownPrices()
"""No table: every cost is unknown."""

_PROVIDERS: Final = {"google_interactions": "google"}
"""The names that the table has for providers, where they are not ours."""


class PublishedPrices:
    """The prices that `genai-prices` has, by the day of the request."""

    def __init__(self) -> None:
        from genai_prices import __version__

        self.name = f"genai-prices {__version__}"

    def nanos(self, provider: str, model: str, usage: Mapping[str, int], at: float) -> int | None:
        """The cost by the table; None when it has no such model."""
        from genai_prices import Usage, calc_price

        tokens = Usage(
            input_tokens=usage.get("input_tokens", 0),
            output_tokens=usage.get("output_tokens", 0),
            cache_read_tokens=usage.get("cached_tokens", 0),
        )
        day = datetime.fromtimestamp(at, UTC)
        for provider_id in (_PROVIDERS.get(provider, provider), None):
            try:
                price = calc_price(
                    tokens, model, provider_id=provider_id, genai_request_timestamp=day
                )
            except (LookupError, ValueError):
                continue
            return _nanos(price.total_price)
        return None


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Dollars for a million tokens of a model."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    """None: as any other input."""

    def nanos(self, usage: Mapping[str, int]) -> int:
        """The cost of a request."""
        cached = usage.get("cached_tokens", 0)
        fresh = max(0, usage.get("input_tokens", 0) - cached)
        cached_price = self.input if self.cached_input is None else self.cached_input
        total = fresh * self.input + cached * cached_price
        total += usage.get("output_tokens", 0) * self.output
        return _nanos(total / 1_000_000)


@dataclass(frozen=True, slots=True)
class OwnPrices:
    """The prices of a project, before those of another table."""

    name: str
    models: Mapping[str, ModelPrice]
    others: Prices = field(default=UNKNOWN_PRICES)

    def nanos(self, provider: str, model: str, usage: Mapping[str, int], at: float) -> int | None:
        """The cost by the project's own price, or by the other table."""
        own = self.models.get(f"{provider}:{model}") or self.models.get(model)
        return self.others.nanos(provider, model, usage, at) if own is None else own.nanos(usage)


@cache
def published_prices() -> Prices:
    """The published table if it is installed (the extra `prices`), else one without prices."""
    try:
        return PublishedPrices()
    except ImportError:
        return UNKNOWN_PRICES


def read_prices(path: Path) -> Prices:
    """The prices of a file, before the published ones. Raises `UsageError` that names each fault.

    The file has one entry for each model, with dollars for a million tokens:
    `models: {llama-3: {input: 0.1, output: 0.4, cached_input: 0.05}}`.
    """
    import yaml

    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: the prices cannot be read: {error}") from None
    mapping = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    models = mapping.get("models")
    if not isinstance(models, dict) or set(mapping) != {"models"}:
        raise UsageError(f"{path}: write `models:` with an entry for each model, and nothing else")
    entries = cast("dict[Any, Any]", models)
    own = {str(name): _model_price(path, str(name), entry) for name, entry in entries.items()}
    others = published_prices()
    return OwnPrices(f"{path.name} + {others.name}", own, others)


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


def _dollars(path: Path, model: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise UsageError(f"{path}: {model}: {value!r} is no price; write a number of dollars")
    return Decimal(str(value))


def _nanos(dollars: Decimal) -> int:
    return int((dollars * _NANO).to_integral_value(ROUND_HALF_EVEN))
