"""Web search and web fetch: where they are, and what can be asked of them there."""

from __future__ import annotations

from typing import Final

from toolcrib.adapters.support.cell import Cell, Kind
from toolcrib.adapters.support.rows import BEFORE_GEMINI_3, GEMINI, LOCAL, OPENAI_ENDS, cells, where

_MORE: Final = "; leave it out, or check the results yourself"
_NO_GEMINI_DOMAINS: Final = f"pydantic-ai cannot filter Google Search by domain{_MORE}"
_NO_CHAT_DOMAINS: Final = "web_search_options has no domains; use openai-responses"
_ONE_LIST: Final = "it takes either allowed or blocked domains, not both; give one list"
_MAYBE: Final = "sent on; the search engine that OpenRouter picks may not apply it"
_NOWHERE: Final = "pydantic-ai drops an empty location; name a place, or leave geo_hint out"
_LOCATED: Final = "openai openai-responses openai-chat anthropic xai openrouter"
_NO_GEMINI_PLACE: Final = "pydantic-ai tells Google Search no place; say it in the prompt"
_NO_GROQ_PLACE: Final = "pydantic-ai tells Groq no place; say it in the prompt"
_ALWAYS_LIVE: Final = "it cannot search without going out to the web; leave allow_live_access on"

_GEO_CELLS: Final = cells(_LOCATED, no={GEMINI: _NO_GEMINI_PLACE, "groq": _NO_GROQ_PLACE})

WEB_SEARCH: Final = Kind(
    where(
        "openai openai-responses anthropic xai openrouter",
        {
            "openai-chat": "only models with search-preview in their name",
            "groq": "only compound models",
            GEMINI: BEFORE_GEMINI_3,
        },
        no={"bedrock": f"pydantic-ai offers no search on Bedrock; {LOCAL}"},
        other=LOCAL,
    ),
    {
        "domain_filter.allowed": cells(
            "anthropic groq",
            {"openrouter": _MAYBE},
            {OPENAI_ENDS: Cell(True, most=100), "xai": Cell(True, most=5)},
            {GEMINI: _NO_GEMINI_DOMAINS, "openai-chat": _NO_CHAT_DOMAINS},
        ),
        "domain_filter.blocked": cells(
            "anthropic groq",
            {"openrouter": _MAYBE},
            {OPENAI_ENDS: Cell(True, most=100), "xai": Cell(True, most=5)},
            {GEMINI: _NO_GEMINI_DOMAINS, "openai-chat": _NO_CHAT_DOMAINS},
        ),
        "domain_filter.both": cells(
            f"{OPENAI_ENDS} groq",
            {"openrouter": _MAYBE},
            no={
                "anthropic xai": _ONE_LIST,
                GEMINI: _NO_GEMINI_DOMAINS,
                "openai-chat": _NO_CHAT_DOMAINS,
            },
        ),
        "geo_hint.country_code": _GEO_CELLS,
        "geo_hint.city": _GEO_CELLS,
        "geo_hint.region": _GEO_CELLS,
        "geo_hint.timezone": _GEO_CELLS,
        "geo_hint.empty": cells(
            "openai openrouter",
            no={
                "openai-responses openai-chat anthropic xai": _NOWHERE,
                GEMINI: _NO_GEMINI_PLACE,
                "groq": _NO_GROQ_PLACE,
            },
        ),
        "allow_live_access": cells(
            OPENAI_ENDS,
            no={
                "openai-chat": "web_search_options has no such option; use openai-responses",
                f"anthropic {GEMINI} groq xai openrouter": _ALWAYS_LIVE,
            },
        ),
    },
)

_NO_FETCH_LIMITS: Final = f"url_context takes no options{_MORE}"

WEB_FETCH: Final = Kind(
    where(
        "anthropic",
        {GEMINI: BEFORE_GEMINI_3},
        no={OPENAI_ENDS: "OpenAI has no such tool; its web_search opens pages by itself"},
        other=f"pydantic-ai offers no such tool there; {LOCAL}",
    ),
    {
        "domain_filter.allowed": cells("anthropic", no={GEMINI: _NO_FETCH_LIMITS}),
        "domain_filter.blocked": cells("anthropic", no={GEMINI: _NO_FETCH_LIMITS}),
        "domain_filter.both": cells(no={"anthropic": _ONE_LIST, GEMINI: _NO_FETCH_LIMITS}),
        "max_uses": cells("anthropic", no={GEMINI: "url_context has no limit; leave it out"}),
        "citations": cells(
            "anthropic",
            no={GEMINI: "it cites when it sees fit and cannot be told to; leave it out"},
        ),
        "max_content_tokens": cells(
            "anthropic", no={GEMINI: "url_context has no limit; leave it out"}
        ),
    },
)
