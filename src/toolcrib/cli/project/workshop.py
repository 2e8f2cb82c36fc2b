"""The functions behind the tools of host-tools.yaml. Put your own in their place."""

from typing import Any

from toolcrib.host_tools import ToolContext

STOCK = {"bolts": 120, "nuts": 80, "saws": 2}


def stock_level(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """How many of a part are left."""
    part = arguments["part"]
    if part not in STOCK:
        raise ValueError(f"there are no {part} here; known are {', '.join(STOCK)}")
    return {"part": part, "left": STOCK[part]}


async def order_parts(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Order more of a part, and count it as there."""
    part, count = arguments["part"], arguments["count"]
    STOCK[part] = STOCK.get(part, 0) + count
    return {"part": part, "left": STOCK[part]}
