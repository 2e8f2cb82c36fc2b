"""Whole loops on the OpenAI adapter: what a step costs, whether it grows, and beside the peers."""

import asyncio
import importlib
from dataclasses import dataclass
from typing import cast

import floor_loop
import ours_loop
from encoded_items import count
from harness import Bound
from loop_report import encodings_table, field_table, long_table
from looping import Contender, Make, Raced, race, ratio
from pacing import Pace, pace
from scripted import History

STEPS = 500
GROWTH: dict[History, float] = {"server": 1.05, "client": 1.5}
"""What the last hundred steps may cost, as a multiple of the first hundred. Who keeps the history
has to send it, so its bytes may show; encoded anew they would cost far more.
"""
SLOPE_US = 0.15
"""By how much a step may be dearer than the one before, with a history that the provider keeps:
one shallow copy of all items at every step would be four times as much.
"""

OURS, READ = "toolcrib", "toolcrib, ledger read at every step"
CREATE, POST = "the SDK by hand, create", "the SDK by hand, post of JSON"
PEERS = {"pydantic-ai": "pydantic_ai", "openai-agents": "openai_agents", "langgraph": "langgraph"}

LONG: tuple[tuple[str, Make, History], ...] = (
    (OURS, ours_loop.loop, "server"),
    (READ, ours_loop.loop_with_reader, "server"),
    (POST, floor_loop.posted, "server"),
    (OURS, ours_loop.loop, "client"),
    (POST, floor_loop.posted, "client"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """Those who run the same loop, and the two ways to run it by hand."""

    history: History
    ours: Contender
    create: Contender
    post: Contender
    peers: tuple[Contender, ...]

    @classmethod
    def of(cls, history: History, steps: int) -> "Field":
        """Everybody, each on a script of this length."""
        peers = [Contender.of(name, _peer(of), history, steps) for name, of in PEERS.items()]
        return cls(
            history,
            Contender.of(OURS, ours_loop.loop, history, steps),
            Contender.of(CREATE, floor_loop.created, history, steps),
            Contender.of(POST, floor_loop.posted, history, steps),
            tuple(peers),
        )

    @property
    def all(self) -> tuple[Contender, ...]:
        return (self.post, self.create, self.ours, *self.peers)

    def own(self, raced: Raced, contender: Contender) -> list[float]:
        """CPU beyond the SDK, by the way that the contender uses it."""
        return raced.own(contender, self.post if contender is self.ours else self.create)


def run(quick: bool) -> list[Bound]:
    """Race long loops of ours and shorter ones of everybody in the same rounds."""
    return asyncio.run(_run(quick))


async def _run(quick: bool) -> list[Bound]:
    rounds = 2 if quick else 5
    long = [Contender.of(*each, STEPS) for each in LONG]
    # The peers' steps grow with the history: with five hundred, one round would take minutes.
    fields = [Field.of("server", 20 if quick else 60), Field.of("client", 10 if quick else 20)]
    raced = await race([*long, *(each for field in fields for each in field.all)], rounds)
    paces = [await pace(make, history, STEPS, rounds + 2) for _, make, history in LONG]
    long_table(raced, long, paces, rounds)
    for field in fields:
        field_table(raced, field, rounds)
    bounds = [
        bound
        for contender, found in zip(long, paces, strict=True)
        if contender.name != POST
        for bound in _growth_bounds(contender, found)
    ]
    bounds += await _encoding_bounds(long[3], fields[1])
    return bounds + [bound for field in fields for bound in _peer_bounds(raced, field)]


def _peer(module: str) -> Make:
    return cast("Make", importlib.import_module(f"peers.loop_{module}").loop)


def _growth_bounds(contender: Contender, found: Pace) -> list[Bound]:
    growth, limit = found.growth.median, GROWTH[contender.history]
    loop = f"{contender.name}, {STEPS} steps, {contender.history} history"
    promise = f"{loop}: the last hundred at most {limit:g}x the first hundred"
    bounds = [Bound(promise, f"{growth:.3f}x", growth <= limit)]
    if contender.history == "server":
        promise = f"{loop}: a step at most {SLOPE_US:g} us dearer than the one before"
        bounds.append(Bound(promise, f"{found.slope:+.4f} us", found.slope <= SLOPE_US))
    return bounds


async def _encoding_bounds(long: Contender, field: Field) -> list[Bound]:
    counted = {contender: await count(contender) for contender in (field.ours, long, field.create)}
    encodings_table(counted)
    return [
        Bound(
            f"client history, {each.items} items: each encoded once to send, never by the SDK",
            f"{each.mean('requests'):.2f} times, by the SDK {each.mean('sdk'):.2f}",
            each.is_once("requests") and each.most("sdk") == 0 and each.most("records") <= 1,
        )
        for contender, each in counted.items()
        if contender.name == OURS
    ]


def _peer_bounds(raced: Raced, field: Field) -> list[Bound]:
    bounds: list[Bound] = []
    what = f"{field.ours.steps} steps, {field.history} history"
    mine, own = raced.costs(field.ours), field.own(raced, field.ours)
    for peer in field.peers:
        whole = ratio(mine, raced.costs(peer)).median
        promise = f"{what}: less CPU than {peer.name}"
        bounds.append(Bound(promise, f"{whole:.3f}x of it", whole < 1))
        if field.history == "server":
            # With a history that is sent, what the SDK makes of it drowns what is the peer's own.
            beyond = ratio(own, field.own(raced, peer)).median
            promise = f"{what}: less CPU beyond the SDK than {peer.name}"
            bounds.append(Bound(promise, f"{beyond:.3f}x of it", 0 < beyond < 1))
    return bounds
