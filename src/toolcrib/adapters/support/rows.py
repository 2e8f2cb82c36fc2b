"""How the matrix is written down: rows of cells by provider, and phrases that come up often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolcrib.adapters.support.cell import YES, Cell

PROVIDERS: Final = (
    "openai",
    "openai-responses",
    "openai-chat",
    "anthropic",
    "google",
    "google-vertex",
    "groq",
    "bedrock",
    "xai",
    "mistral",
    "openrouter",
)
"""`openai` is this package's own adapter; the others go through pydantic-ai."""

LOCAL: Final = "declare a local tool, or name one as fallback"
OWN_ADAPTER: Final = "pydantic-ai does not send it; use OpenAIAdapter"
BEFORE_GEMINI_3: Final = "before Gemini 3 not together with functions"
OPENAI_ENDS: Final = "openai openai-responses"
GEMINI: Final = "google google-vertex"
_MISTRAL: Final = f"pydantic-ai speaks Mistral's chat API, which runs no tools; {LOCAL}"


def cells(
    yes: str = "",
    noted: Mapping[str, str] | None = None,
    limited: Mapping[str, Cell] | None = None,
    no: Mapping[str, str] | None = None,
) -> dict[str, Cell]:
    """A row. Each key names one or more providers, with spaces between them."""
    found = dict.fromkeys(yes.split(), YES)
    found |= _spread({names: Cell(True, note) for names, note in (noted or {}).items()})
    found |= _spread(limited or {})
    return found | _spread({names: Cell(False, why) for names, why in (no or {}).items()})


def where(
    yes: str = "",
    noted: Mapping[str, str] | None = None,
    no: Mapping[str, str] | None = None,
    *,
    other: str,
) -> dict[str, Cell]:
    """Where a kind exists. Providers that are not named have none, for one `other` reason."""
    told = cells(yes, noted, no={"mistral": _MISTRAL, **(no or {})})
    return {name: told.get(name, Cell(False, other)) for name in PROVIDERS}


def _spread(by_names: Mapping[str, Cell]) -> dict[str, Cell]:
    return {name: cell for names, cell in by_names.items() for name in names.split()}
