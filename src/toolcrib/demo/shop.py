"""The shop's own tools: what is in the store room, and orders in a book."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolcrib.host_tools import ToolContext

STOCK = {"kenya": 214, "brazil": 640}
BOOK = "orders.jsonl"


def stock_level(given: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """How many kilos there are."""
    return {"item": given["item"], "kilos": STOCK[given["item"]]}


def place_order(given: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Write an order into the book, and say its number."""
    book = Path(context.cwd, BOOK)
    orders = book.read_text().splitlines() if book.exists() else []
    order = {"order": f"PO-{len(orders) + 1:04}", **given}
    with book.open("a") as file:
        file.write(json.dumps(order) + "\n")
    return {**order, "total": round(given["kilos"] * given["price_per_kilo"], 2)}
