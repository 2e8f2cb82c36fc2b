"""Frames that no client should send, the same ones for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

WHOLE: Final = (
    b'{"jsonrpc":"2.0","id":"fuzz","method":"tools.call",'
    b'"params":{"session_id":"none","name":"echo","arguments":{"text":"a"}}}'
)
ODD: Final[tuple[Any, ...]] = (
    *(None, True, -1, 1.5, 2**70, "", "x", "2.0", "\u2028", "\U0001f9f0", [], {}, [[]]),
    *("tools.call", {"session_id": 5}, {"session_id": "none", "extra": {}}, ["session_id"]),
)
METHODS: Final = (
    *("tools.call", "tools.list", "tools.cancel", "session.create", "session.resume"),
    *("session.fork", "prompt.send", "prompt.resume", "approvals.decide", "grants.revoke"),
    *("events.list", "events.subscribe", "client.attach", "$/cancel", "ping", "rpc.discover", "x"),
)
KEYS: Final = ("jsonrpc", "id", "method", "params", "result", "error")
_DEEP: Final = (200, 2_000, 50_000)


def frames(count: int, seed: int) -> list[bytes]:
    """Frames of every kind, in an order of chance; none has a line break."""
    dice = random.Random(seed)
    return [dice.choice(KINDS)(dice).replace(b"\n", b" ") for _ in range(count)]


def _noise(dice: random.Random) -> bytes:
    return dice.randbytes(dice.randrange(1, 80))


def _cut(dice: random.Random) -> bytes:
    return WHOLE[: dice.randrange(1, len(WHOLE))]


def _mutated(dice: random.Random) -> bytes:
    changed = bytearray(WHOLE)
    for _ in range(dice.randrange(1, 4)):
        changed[dice.randrange(len(changed))] = dice.choice(b'{}[]",:0aZ\\\x00\xff')
    return bytes(changed)


def _wrong_members(dice: random.Random) -> bytes:
    keys = dice.sample(KEYS, dice.randrange(1, len(KEYS)))
    return json.dumps({key: dice.choice(ODD) for key in keys}).encode()


def _wrong_params(dice: random.Random) -> bytes:
    told = {"jsonrpc": "2.0", "method": dice.choice(METHODS), "params": _params(dice)}
    if dice.random() < 0.5:
        told["id"] = f"fuzz{dice.randrange(1_000)}"
    return json.dumps(told).encode()


def _params(dice: random.Random) -> Any:
    if dice.random() < 0.4:
        return dice.choice(ODD)
    names = ("session_id", "name", "arguments", "call_id", "after", "id", "text", "client_tools")
    return {name: dice.choice(ODD) for name in dice.sample(names, dice.randrange(1, 6))}


def _not_utf8(dice: random.Random) -> bytes:
    at = dice.randrange(len(WHOLE))
    return WHOLE[:at] + dice.choice((b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80")) + WHOLE[at:]


def _deep(dice: random.Random) -> bytes:
    if dice.random() > 0.05:
        return _noise(dice)
    depth = dice.choice(_DEEP)
    nested = b"[" * depth + (b"]" * depth if dice.random() < 0.5 else b"")
    return WHOLE.replace(b'"a"', nested) if dice.random() < 0.5 else nested


def _batch(dice: random.Random) -> bytes:
    return b"[" + b",".join([WHOLE] * dice.randrange(0, 4)) + b"]"


def _odd_json(dice: random.Random) -> bytes:
    texts = (b"NaN", b"1e999", b'"\\ud800"', b"0x1", b"'a'", b"//", b"\xef\xbb\xbf{}", b"-0", b" ")
    return dice.choice(texts)


def _large(dice: random.Random) -> bytes:
    if dice.random() > 0.01:
        return _cut(dice)
    return WHOLE.replace(b'"a"', b'"%b"' % (b"a" * 300_000))


KINDS: Final[tuple[Callable[[random.Random], bytes], ...]] = (
    _noise,
    _cut,
    _mutated,
    _wrong_members,
    _wrong_params,
    _not_utf8,
    _deep,
    _batch,
    _odd_json,
    _large,
)
