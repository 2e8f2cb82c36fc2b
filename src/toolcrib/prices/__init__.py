"""What requests to models and provider-run calls cost, by dated tables of prices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.prices.cost import Cost, CostPart
    from toolcrib.prices.price_list import HostedUse
    from toolcrib.prices.table import Prices, published_prices, read_prices

__all__ = [
    "Cost",
    "CostPart",
    "HostedUse",
    "Prices",
    "published_prices",
    "read_prices",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.prices.cost": ("Cost", "CostPart"),
            "toolcrib.prices.price_list": ("HostedUse",),
            "toolcrib.prices.table": ("Prices", "published_prices", "read_prices"),
        },
    )
