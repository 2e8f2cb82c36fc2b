"""Prices of provider-run calls that the published table of models lacks, each with its day.

The figures are those of the providers' own price lists. Free allowances and discounts of an account
are not known here and are not subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from toolcrib.prices.cost import CostPart, nanos_of


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedUse:
    """What a provider may bill for one provider-run call, besides tokens."""

    provider: str
    model: str
    kind: str
    """The kind of the tool: `web_search`, `code_interpreter`, ..."""
    quantity: int = 1
    """How many searches, containers or images it took; 0 when it took none that is billed."""
    container_id: str | None = None
    memory_limit: str | None = None
    """Of its container: `1g`, `4g`, `16g` or `64g`; None is the provider's default."""
    image_model: str | None = None
    image_quality: str | None = None
    image_size: str | None = None


@dataclass(frozen=True, slots=True)
class _Price:
    dollars: Decimal
    as_of: str
    source: str
    what: str = "call"


_OPENAI: Final = "openai price list"
_ANTHROPIC: Final = "anthropic price list"
_GOOGLE: Final = "google price list"
_XAI: Final = "xai price list"
_FREE: Final = Decimal(0)


def _thousand(dollars: str) -> Decimal:
    return Decimal(dollars) / 1000


_CALLS: Final[dict[tuple[str, str], _Price]] = {
    # Tokens only: the price list names no fee for the call itself.
    ("openai", "mcp"): _Price(_FREE, "2026-08-04", _OPENAI),
    ("openai", "tool_search"): _Price(_FREE, "2026-08-04", _OPENAI),
    ("anthropic", "web_fetch"): _Price(_FREE, "2026-10-14", _ANTHROPIC),
    ("anthropic", "mcp"): _Price(_FREE, "2026-10-14", _ANTHROPIC),
    ("anthropic", "tool_search"): _Price(_FREE, "2026-10-14", _ANTHROPIC),
    ("google", "code_interpreter"): _Price(_FREE, "2026-10-07", _GOOGLE),
    ("google", "web_fetch"): _Price(_FREE, "2026-10-07", _GOOGLE),
    ("google", "file_search"): _Price(_FREE, "2026-10-07", _GOOGLE),
    ("x-ai", "mcp"): _Price(_FREE, "2026-11-17", _XAI),
    ("x-ai", "web_search"): _Price(_thousand("5"), "2026-11-17", _XAI),
    ("x-ai", "x_search"): _Price(_thousand("5"), "2026-11-17", _XAI),
    ("x-ai", "code_interpreter"): _Price(_thousand("5"), "2026-11-17", _XAI),
    ("x-ai", "file_search"): _Price(_thousand("2.5"), "2026-11-17", _XAI),
    # 0.05 dollars an hour, five minutes at least; a call is far shorter.
    ("anthropic", "code_interpreter"): _Price(
        Decimal("0.05") / 12, "2026-10-14", _ANTHROPIC, "container"
    ),
}

SESSION_SECONDS: Final = 20 * 60
"""How long a container session lasts that OpenAI bills at once; no provider's is longer."""
_SHORTER_SESSIONS: Final = {"anthropic": 5 * 60}


def session_seconds(provider: str) -> int:
    """How long the use of a container lasts that a provider bills at once."""
    return _SHORTER_SESSIONS.get(provider, SESSION_SECONDS)


CONTAINER_KINDS: Final = frozenset({"code_interpreter", "shell"})
"""Kinds whose calls run in a container."""
_CONTAINER_SESSIONS: Final = {
    "1g": Decimal("0.03"),
    "4g": Decimal("0.12"),
    "16g": Decimal("0.48"),
    "64g": Decimal("1.92"),
}
_CONTAINERS_AS_OF: Final = "2026-08-04"

_IMAGE_TOKENS: Final = {
    ("low", "1024x1024"): 272,
    ("medium", "1024x1024"): 1056,
    ("high", "1024x1024"): 4160,
    ("low", "1024x1536"): 408,
    ("medium", "1024x1536"): 1584,
    ("high", "1024x1536"): 6240,
    ("low", "1536x1024"): 400,
    ("medium", "1536x1024"): 1568,
    ("high", "1536x1024"): 6208,
}
"""Output tokens of one image of the models below, by quality and size."""

_IMAGE_TOKEN_MODELS: Final = frozenset({"gpt-image-1", "gpt-image-1-mini", "gpt-image-1.5"})


def image_tokens(use: HostedUse) -> int | None:
    """The output tokens that an image is billed as; None where the price list does not say."""
    if use.image_model not in _IMAGE_TOKEN_MODELS:
        return None
    return _IMAGE_TOKENS.get((use.image_quality or "", use.image_size or ""))


def listed_part(use: HostedUse, provider: str) -> CostPart | None:
    """The cost of a call by this table; None when it has no such price. `provider` is the name that
    tables have for it.
    """
    if provider == "openai" and use.kind in CONTAINER_KINDS:
        return _container_session(use)
    price = _CALLS.get((provider, use.kind))
    if price is None:
        return None
    return CostPart(
        use.kind if price.what == "call" else price.what,
        use.provider if price.what == "call" else use.container_id or use.provider,
        use.quantity,
        nanos_of(price.dollars * use.quantity),
        price.source,
        price.as_of,
    )


def _container_session(use: HostedUse) -> CostPart | None:
    dollars = _CONTAINER_SESSIONS.get(use.memory_limit or "1g")
    if dollars is None:
        return None
    return CostPart(
        "container",
        use.container_id or use.provider,
        use.quantity,
        nanos_of(dollars * use.quantity),
        _OPENAI,
        _CONTAINERS_AS_OF,
    )
