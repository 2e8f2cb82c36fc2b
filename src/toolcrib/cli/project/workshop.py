"""The functions behind the tools of host-tools.yaml. Put your own in their place."""

from typing import Any

from toolcrib.host_tools import ToolContext

STOCK = {"bolts": 120, "nuts": 80, "saws": 2}


def stock_level(given: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """How many of a part are left."""
    part = given["part"]
    if part not in STOCK:
        raise ValueError(f"there are no {part} here; known are {', '.join(STOCK)}")
    return {"part": part, "left": STOCK[part]}


async def order_parts(given: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Order more of a part, and count it as there."""
    part, count = given["part"], given["count"]
    STOCK[part] = STOCK.get(part, 0) + count
    return {"part": part, "left": STOCK[part]}
