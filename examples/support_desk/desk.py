"""A support desk: tools an agent may call freely, and one that moves money and needs a person."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from toolcrib import Executor, Policy, Rule, Secret, Session, ToolContext, tool
from toolcrib.approval import Approver, Between

BOOKS = "refunds.txt"
"""Where money really moves: one line for each refund, so that a second one would show."""

ORDERS = {"A-17": 49.90, "B-22": 1200.00}


@dataclass(frozen=True)
class Order:
    order_id: str
    total: float


@tool(is_read_only=True)
async def look_up_order(order_id: str) -> Order:
    """Find an order.

    Args:
        order_id: The number on the invoice, such as A-17.
    """
    if order_id not in ORDERS:
        raise LookupError(f"there is no order {order_id}")
    return Order(order_id, ORDERS[order_id])


@tool(requires_approval=True, timeout=10.0)
def refund(
    ctx: ToolContext, order_id: str, amount: float, card_token: Annotated[str, Secret()]
) -> str:
    """Pay money back to the customer.

    Args:
        order_id: The order to refund.
        amount: How much, in euros.
        card_token: The card to pay to.
    """
    ctx.progress(1, 2, "talking to the bank")
    with (Path(ctx.cwd) / BOOKS).open("a") as books:
        books.write(f"{ctx.idempotency_key} {order_id} {amount:.2f}\n")
    return f"Refunded {amount:.2f} EUR for {order_id}."


@tool(uses=("look_up_order", "refund"))
async def settle_complaint(
    ctx: ToolContext, order_id: str, card_token: Annotated[str, Secret()]
) -> str:
    """Look an order up and pay all of it back."""
    order = await ctx.call_tool("look_up_order", {"order_id": order_id})
    paid = await ctx.call_tool(
        "refund", {"order_id": order_id, "amount": order.value.total, "card_token": card_token}
    )
    return paid.text


POLICY = Policy(
    rules=(
        Rule("allow", tool="look_up_order", id="reading"),
        Rule("allow", tool="settle_complaint", id="complaints"),
        Rule(
            "deny",
            tool="refund",
            arguments={"/amount": Between(min=1000)},
            id="big-money",
            reason="Refunds of 1000 EUR and more are made by the finance team.",
        ),
    )
)


def desk(session: Session, approver: Approver | None = None) -> Executor:
    """The desk's tools under the desk's policy."""
    tools = [look_up_order, refund, settle_complaint]
    return Executor(session, tools, policy=POLICY, approver=approver)
