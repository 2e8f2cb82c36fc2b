"""A shopping cart."""

TAX = 0.19


def net(prices: list[float]) -> float:
    """What the articles cost without tax."""
    return sum(prices)


def gross(prices: list[float]) -> float:
    return round(net(prices) * (1 + TAX), 2)
