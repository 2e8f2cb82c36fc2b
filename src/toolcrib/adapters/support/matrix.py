"""The whole matrix. A yes means that the option really reaches the provider: one that the library
in between (pydantic-ai 2.66) would leave out without a word is a no.

How the matrix is written down: rows of cells by provider, and phrases that come up often.

Web search and web fetch: where they are, and what can be asked of them there.

What runs code, commands and patches, or keeps notes, and where.

File search and image generation: where they are, and what can be asked of them there.

Remote MCP servers: where they are, and what can be asked of them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolcrib.adapters.support.cell import YES, Cell, Kind

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


_ONLY_OPENAI_CONTAINER: Final = "its sandbox cannot be set up; leave it out"
_NO_FILES: Final = "pydantic-ai puts no files into this sandbox; attach them to the prompt"
_NO_CONTAINER: Final = "its sandbox lives for one request; use AutoContainer()"

CODE_INTERPRETER: Final = Kind(
    where(
        "openai openai-responses anthropic xai",
        {"bedrock": "only Amazon Nova 2 models", GEMINI: BEFORE_GEMINI_3},
        no={},
        other=f"pydantic-ai offers no code execution there; {LOCAL}",
    ),
    {
        "container.id": cells(
            "openai anthropic",
            no={"openai-responses": OWN_ADAPTER, f"{GEMINI} bedrock xai": _NO_CONTAINER},
        ),
        "container.memory_limit": cells(
            "openai",
            no={
                "openai-responses": OWN_ADAPTER,
                f"anthropic {GEMINI} bedrock xai": _ONLY_OPENAI_CONTAINER,
            },
        ),
        "container.file_ids": cells(
            "openai openai-responses anthropic", no={f"{GEMINI} bedrock xai": _NO_FILES}
        ),
        "container.network_policy": cells(
            "openai",
            no={
                "openai-responses": OWN_ADAPTER,
                f"anthropic {GEMINI} bedrock xai": _ONLY_OPENAI_CONTAINER,
            },
        ),
    },
)

_NO_SHELL: Final = f"pydantic-ai has no such tool; {LOCAL}"
_OPENAI_ONLY: Final = cells("openai")

SHELL: Final = Kind(
    where("openai", other=_NO_SHELL),
    {
        "container.id": _OPENAI_ONLY,
        "container.memory_limit": _OPENAI_ONLY,
        "container.file_ids": _OPENAI_ONLY,
        "container.network_policy": _OPENAI_ONLY,
        "skills": _OPENAI_ONLY,
        "local": _OPENAI_ONLY,
        "local.skills": _OPENAI_ONLY,
    },
)

APPLY_PATCH: Final = Kind(where("openai", other=_NO_SHELL))

MEMORY: Final = Kind(
    where(
        "anthropic",
        no={"openai": f"OpenAI has no such tool; {LOCAL}"},
        other=f"only Anthropic defines this tool; {LOCAL}",
    )
)

TOOL_SEARCH: Final = Kind(
    where(
        "openai",
        {
            "openai-responses": "only GPT-5.4 and later",
            "anthropic": "only Claude 4.5 and later",
        },
        other="pydantic-ai offers no tool search there; offer fewer tools",
    ),
    {
        "local": cells(
            "openai",
            no={
                "openai-responses": OWN_ADAPTER,
                "anthropic": "pydantic-ai searches with a function; declare one yourself",
            },
        )
    },
)


_NO_RANKING: Final = {
    "openai-responses": OWN_ADAPTER,
    "google xai": "it ranks by itself; leave ranking out",
}

FILE_SEARCH: Final = Kind(
    where(
        "openai openai-responses",
        {"google": BEFORE_GEMINI_3, "xai": "the stores are collections"},
        no={
            "anthropic": f"Anthropic has no file search; {LOCAL}",
            "google-vertex": "file search stores are on the Gemini API only; use google",
        },
        other=f"pydantic-ai offers no file search there; {LOCAL}",
    ),
    {
        "vector_store_ids": cells(
            "openai openai-responses google", limited={"xai": Cell(True, most=10)}
        ),
        "max_results": cells(
            "xai",
            limited={"openai": Cell(True, most=50)},
            no={
                "openai-responses": OWN_ADAPTER,
                "google": "pydantic-ai does not send it; leave it out",
            },
        ),
        "filters": cells(
            "openai",
            no={
                "openai-responses": OWN_ADAPTER,
                "google xai": "pydantic-ai cannot filter files there; keep apart what must be apart"
                " in stores of their own",
            },
        ),
        "ranking.ranker": cells(
            limited={"openai": Cell(True, only=("auto", "default-2024-11-15"))}, no=_NO_RANKING
        ),
        "ranking.score_threshold": cells("openai", no=_NO_RANKING),
        "ranking.hybrid": cells("openai", no=_NO_RANKING),
    },
)

_BY_MODEL: Final = "Gemini draws as it sees fit; say it in the prompt"
_FORMATS: Final = Cell(True, only=("png", "webp", "jpeg"))
_SIZES: Final = Cell(True, only=("auto", "1024x1024", "1024x1536", "1536x1024"))
_DRAWN: Final = cells(OPENAI_ENDS, no={GEMINI: _BY_MODEL})
_ONLY_OWN: Final = cells("openai", no={"openai-responses": OWN_ADAPTER, GEMINI: _BY_MODEL})

IMAGE_GENERATION: Final = Kind(
    where(
        "openai openai-responses",
        {GEMINI: "only models with image in their name"},
        no={"anthropic": f"Anthropic draws no images; {LOCAL}"},
        other=f"pydantic-ai offers no image generation there; {LOCAL}",
    ),
    {
        "action": _DRAWN,
        "model": _DRAWN,
        "size": cells(
            "openai",
            limited={"openai-responses": _SIZES},
            no={GEMINI: "Gemini counts in 1K, 2K and 4K, not in pixels; leave it out"},
        ),
        "quality": cells(
            "openai",
            limited={"openai-responses": Cell(True, only=("low", "medium", "high", "auto"))},
            no={GEMINI: _BY_MODEL},
        ),
        "complexity": _ONLY_OWN,
        "background": _DRAWN,
        "output_format": cells(
            "openai",
            limited={
                "openai-responses": _FORMATS,
                "google-vertex": Cell(True, only=("png", "jpeg")),
            },
            no={"google": "only Vertex can be told; leave it out"},
        ),
        "output_compression": cells(
            f"{OPENAI_ENDS} google-vertex", no={"google": "only Vertex can be told; leave it out"}
        ),
        "input_fidelity": _DRAWN,
        "mask": _ONLY_OWN,
        "moderation": _DRAWN,
        "partial_images": _DRAWN,
        "frame_count": _ONLY_OWN,
        "frame_duration_ms": _ONLY_OWN,
        "svg": _ONLY_OWN,
    },
)


_BY_ADDRESS: Final = "it reaches servers by address only; give a server_url"
_NO_APPROVAL: Final = (
    "nobody can be asked before a call; set require_approval='never' and allow only tools that "
    "need no approval, or connect to the server from here"
)

MCP: Final = Kind(
    where(
        "openai openai-responses anthropic xai",
        no={
            "google google-vertex": "pydantic-ai connects Gemini to no MCP servers; connect to the "
            "server from here"
        },
        other=f"pydantic-ai offers no MCP servers there; {LOCAL}",
    ),
    {
        "server_url": cells("openai openai-responses anthropic xai"),
        "connector_id": cells(OPENAI_ENDS, no={"anthropic xai": _BY_ADDRESS}),
        "tunnel_id": cells(
            "openai", no={"openai-responses": OWN_ADAPTER, "anthropic xai": _BY_ADDRESS}
        ),
        "description": cells(
            "openai openai-responses xai",
            no={"anthropic": "pydantic-ai does not send it; leave it out"},
        ),
        "authorization": cells("openai openai-responses anthropic xai"),
        "headers": cells(
            "openai openai-responses xai",
            no={"anthropic": "it sends no headers of yours; use authorization"},
        ),
        "allowed_tools": cells("openai openai-responses anthropic xai"),
        "allowed_tools.read_only": cells(
            "openai",
            no={
                "openai-responses": OWN_ADAPTER,
                "anthropic xai": "it picks tools by name only; list their names",
            },
        ),
        "require_approval": cells(
            "openai",
            no={
                "openai-responses": f"{OWN_ADAPTER}, or set 'never'",
                "anthropic xai": _NO_APPROVAL,
            },
        ),
        "defer_loading": cells(
            "openai",
            no={
                "openai-responses": OWN_ADAPTER,
                "anthropic xai": "pydantic-ai shows all its tools at once; leave it out",
            },
        ),
    },
)


MATRIX: Final[Mapping[str, Kind]] = {
    "web_search": WEB_SEARCH,
    "web_fetch": WEB_FETCH,
    "code_interpreter": CODE_INTERPRETER,
    "file_search": FILE_SEARCH,
    "image_generation": IMAGE_GENERATION,
    "mcp": MCP,
    "shell": SHELL,
    "apply_patch": APPLY_PATCH,
    "memory": MEMORY,
    "tool_search": TOOL_SEARCH,
}
