"""The shop's own tools: the stock in the store room, and orders in a book."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from toolcrib.host_tools import ToolContext

STOCK: Final = {"kenya": 214, "brazil": 640}
BOOK: Final = "orders.jsonl"


def stock_level(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """How many kilos there are."""
    return {"item": arguments["item"], "kilos": STOCK[arguments["item"]]}


def place_order(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Write an order into the book, and say its number. The same order is not placed twice."""
    book = Path(context.cwd, BOOK)
    orders = placed_orders(Path(context.cwd))
    for order in orders:
        if all(order[key] == value for key, value in arguments.items()):
            return order
    order = {
        "order": f"PO-{len(orders) + 1:04}",
        **arguments,
        "total": round(arguments["kilos"] * arguments["price_per_kilo"], 2),
    }
    with book.open("a") as file:
        file.write(json.dumps(order) + "\n")
    return order


def placed_orders(folder: Path) -> list[dict[str, Any]]:
    """The orders in the book."""
    book = folder / BOOK
    lines = book.read_text().splitlines() if book.exists() else []
    return [json.loads(line) for line in lines]
