"""The tables of the loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from encoded_items import Encodings
from harness import Spread
from looping import Contender, Raced, ratio
from pacing import Pace
from report import quarters, table

if TYPE_CHECKING:
    from loop import Field


def long_table(
    raced: Raced, contenders: Sequence[Contender], paces: Sequence[Pace], rounds: int
) -> None:
    """What a step costs, and how that grows."""
    rows: list[list[str]] = []
    for each, pace in zip(contenders, paces, strict=True):
        cost = Spread.of(raced.costs(each))
        rows.append(
            [
                each.name,
                each.history,
                f"{cost.median:.0f}",
                quarters(cost, 0),
                f"{pace.growth.median:.3f}",
                quarters(pace.growth, 3),
                f"{pace.slope:+.3f}",
                f"{each.script.last_bytes / 1e3:.1f}",
            ]
        )
    table(
        f"A loop of {contenders[0].steps} steps, {rounds} interleaved rounds",
        ["path", "history", "CPU us/step", "IQR", "late/early", "IQR", "us more a step", "last KB"],
        rows,
    )


def field_table(raced: Raced, field: Field, rounds: int) -> None:
    """Everybody on the same loop, the cheapest first."""
    rows: list[list[str]] = []
    for each in sorted(field.all, key=lambda one: Spread.of(raced.costs(one)).median):
        cost = Spread.of(raced.costs(each))
        times = ratio(raced.costs(each), raced.costs(field.ours))
        is_by_hand = each is field.create or each is field.post
        rows.append(
            [
                each.name,
                f"{cost.median:.0f}",
                quarters(cost, 0),
                "" if is_by_hand else f"{Spread.of(field.own(raced, each)).median:.0f}",
                f"{times.median:.2f}",
                quarters(times, 2),
                f"{raced.growth(each).median:.2f}",
            ]
        )
    who = "the provider keeps" if field.history == "server" else "the caller keeps and sends"
    table(
        f"A loop of {field.ours.steps} steps, {who} the history, {rounds} interleaved rounds",
        ["path", "CPU us/step", "IQR", "beyond the SDK", "x ours", "IQR", "last/first fifth"],
        rows,
    )


def encodings_table(counted: Mapping[Contender, Encodings]) -> None:
    """How often an item becomes JSON, and for what."""
    rows: list[list[str]] = []
    for contender, each in counted.items():
        cells = [
            f"{each.mean(place):.2f} ({each.most(place)})"
            for place in ("requests", "records", "sdk")
        ]
        rows.append([contender.name, str(each.items), *cells])
    table(
        "Encodings of an item when the caller keeps the history: mean (most)",
        ["path", "items", "by us to send", "by us to record", "by the SDK"],
        rows,
    )
