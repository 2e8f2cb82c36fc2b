"""The tools of this project: typed functions. Put your own in their place."""

from typing import Literal

from toolcrib import tool

Part = Literal["bolts", "nuts", "saws"]
STOCK: dict[Part, int] = {"bolts": 120, "nuts": 80, "saws": 2}


@tool(is_read_only=True)
def stock_level(part: Part) -> int:
    """Say how many of a part are left."""
    return STOCK[part]


@tool
def order_parts(part: Part, count: int) -> int:
    """Order more of a part, and say how many there are then."""
    STOCK[part] += count
    return STOCK[part]
