"""The support matrix: every kind of tool and every option, on every provider.

A yes means that the option reaches the provider: one that the library in between (pydantic-ai 2.66)
would drop silently is a no.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolcrib.adapters.support.table import FALLBACK, KindSupport, support_table

OWN_ADAPTER: Final = "pydantic-ai does not send it; use OpenAIAdapter"
BEFORE_GEMINI_3: Final = "before Gemini 3 not together with functions"

WEB_SEARCH: Final = support_table(
    """
                          openai responses chat anthropic google vertex groq xai openrouter
    (tool)                yes    yes       +a   yes       +b     +b     +c   yes yes
    domain_filter.allowed <=100  <=100     -d   yes       -e     -e     yes  <=5 +f
    domain_filter.blocked <=100  <=100     -d   yes       -e     -e     yes  <=5 +f
    domain_filter.both    yes    yes       -d   -g        -e     -e     yes  -g  +f
    geo_hint.country_code yes    yes       yes  yes       -h     -h     -i   yes yes
    geo_hint.city         yes    yes       yes  yes       -h     -h     -i   yes yes
    geo_hint.region       yes    yes       yes  yes       -h     -h     -i   yes yes
    geo_hint.timezone     yes    yes       yes  yes       -h     -h     -i   yes yes
    geo_hint.empty        yes    -j        -j   -j        -h     -h     -i   -j  yes
    allow_live_access     yes    yes       -k   -l        -l     -l     -l   -l  -l
    search_context_size   yes    yes       yes  -m        -m     -m     -m   -m  yes
    max_uses              -n     -n        -n   yes       -o     -o     -o   -o  yes
    """,
    notes={
        "a": "only models with search-preview in their name",
        "b": BEFORE_GEMINI_3,
        "c": "only compound models",
        "d": "web_search_options has no domains; use openai-responses",
        "e": (
            "pydantic-ai cannot filter Google Search by domain; leave it out, or check the "
            "results yourself"
        ),
        "f": "sent on; the search engine that OpenRouter picks may not apply it",
        "g": "it takes either allowed or blocked domains, not both; give one list",
        "h": "pydantic-ai tells Google Search no place; say it in the prompt",
        "i": "pydantic-ai tells Groq no place; say it in the prompt",
        "j": "pydantic-ai drops an empty location; name a place, or leave geo_hint out",
        "k": "web_search_options has no such option; use openai-responses",
        "l": "it cannot search without going out to the web; leave allow_live_access on",
        "m": "it decides by itself how much it reads; leave it out",
        "n": "it has no limit for one tool; pass settings={'max_tool_calls': ...}",
        "o": "it has no limit; leave it out",
    },
    elsewhere=f"pydantic-ai offers no search on Bedrock; {FALLBACK}",
)

X_SEARCH: Final = support_table(
    """
                     xai
    (tool)           yes
    allowed_handles  yes
    excluded_handles yes
    from_date        yes
    to_date          yes
    reads_images     yes
    reads_videos     yes
    """,
    absent={
        "openai": f"only xAI searches X; {FALLBACK}",
    },
    elsewhere=f"only xAI searches X; {FALLBACK}",
)

WEB_FETCH: Final = support_table(
    """
                          anthropic google vertex
    (tool)                yes       +a     +a
    domain_filter.allowed yes       -b     -b
    domain_filter.blocked yes       -b     -b
    domain_filter.both    -c        -b     -b
    max_uses              yes       -d     -d
    citations             yes       -e     -e
    max_content_tokens    yes       -d     -d
    """,
    notes={
        "a": BEFORE_GEMINI_3,
        "b": "url_context takes no options; leave it out, or check the results yourself",
        "c": "it takes either allowed or blocked domains, not both; give one list",
        "d": "url_context has no limit; leave it out",
        "e": "it cites when it sees fit and cannot be told to; leave it out",
    },
    absent={
        "openai": "OpenAI has no such tool; its web_search opens pages by itself",
        "openai-responses": "OpenAI has no such tool; its web_search opens pages by itself",
    },
    elsewhere=f"pydantic-ai offers no such tool there; {FALLBACK}",
)

CODE_INTERPRETER: Final = support_table(
    """
                             openai responses anthropic google vertex bedrock xai
    (tool)                   yes    yes       yes       +a     +a     +b      yes
    container.id             yes    -c        yes       -d     -d     -d      -d
    container.memory_limit   yes    -c        -e        -e     -e     -e      -e
    container.file_ids       yes    yes       yes       -f     -f     -f      -f
    container.network_policy yes    -c        -e        -e     -e     -e      -e
    allowed_callers          yes    -c        -g        -g     -g     -g      -g
    """,
    notes={
        "a": BEFORE_GEMINI_3,
        "b": "only Amazon Nova 2 models",
        "c": OWN_ADAPTER,
        "d": "its sandbox lives for one request; use AutoContainer()",
        "e": "its sandbox cannot be set up; leave it out",
        "f": "pydantic-ai puts no files into this sandbox; attach them to the prompt",
        "g": "no program of the model's can call it there; leave it out",
    },
    elsewhere=f"pydantic-ai offers no code execution there; {FALLBACK}",
)

FILE_SEARCH: Final = support_table(
    """
                            openai responses google xai
    (tool)                  yes    yes       +a     +b
    vector_store_ids        yes    yes       yes    <=10
    max_results             <=50   -c        -d     yes
    filters                 yes    -c        -e     -e
    ranking.ranker          +f     -c        -g     -g
    ranking.score_threshold yes    -c        -g     -g
    ranking.hybrid          yes    -c        -g     -g
    retrieval_mode          -h     -h        -i     yes
    instructions            -j     -j        -j     yes
    """,
    notes={
        "a": BEFORE_GEMINI_3,
        "b": "the stores are collections",
        "c": OWN_ADAPTER,
        "d": "pydantic-ai does not send it; leave it out",
        "e": (
            "pydantic-ai cannot filter files there; keep apart what must be apart in stores "
            "of their own"
        ),
        "f": ("auto", "default-2024-11-15"),
        "g": "it ranks by itself; leave ranking out",
        "h": "it searches both ways at once; weigh them with ranking.hybrid",
        "i": "it searches by meaning only; leave it out",
        "j": "it takes none; say it in the prompt",
    },
    absent={
        "anthropic": f"Anthropic has no file search; {FALLBACK}",
        "google-vertex": "file search stores are on the Gemini API only; use google",
    },
    elsewhere=f"pydantic-ai offers no file search there; {FALLBACK}",
)

IMAGE_GENERATION: Final = support_table(
    """
                       openai responses google vertex
    (tool)             yes    yes       +a     +a
    action             yes    yes       -b     -b
    model              yes    yes       -b     -b
    size               yes    +c        -d     -d
    resolution         -j     -j        yes    yes
    aspect_ratio       -k     +l        yes    yes
    quality            yes    +e        -b     -b
    complexity         yes    -f        -b     -b
    background         yes    yes       -b     -b
    output_format      yes    +g        -h     +i
    output_compression yes    yes       -h     yes
    input_fidelity     yes    yes       -b     -b
    mask               yes    -f        -b     -b
    moderation         yes    yes       -b     -b
    partial_images     yes    yes       -b     -b
    frame_count        yes    -f        -b     -b
    frame_duration_ms  yes    -f        -b     -b
    svg                yes    -f        -b     -b
    """,
    notes={
        "a": "only models with image in their name",
        "b": "Gemini draws as it sees fit; say it in the prompt",
        "c": ("auto", "1024x1024", "1024x1536", "1536x1024"),
        "d": "Gemini counts in 1K, 2K and 4K, not in pixels; give a resolution",
        "e": ("low", "medium", "high", "auto"),
        "f": OWN_ADAPTER,
        "g": ("png", "webp", "jpeg"),
        "h": "only Vertex can be told; leave it out",
        "i": ("png", "jpeg"),
        "j": "it counts in pixels; give a size",
        "k": "it takes width and height; give a size",
        "l": ("1:1", "2:3", "3:2"),
    },
    absent={
        "anthropic": f"Anthropic draws no images; {FALLBACK}",
    },
    elsewhere=f"pydantic-ai offers no image generation there; {FALLBACK}",
)

MCP: Final = support_table(
    """
                            openai responses anthropic xai
    (tool)                  yes    yes       yes       yes
    server_url              yes    yes       yes       yes
    connector_id            yes    yes       -a        -a
    tunnel_id               yes    -b        -a        -a
    description             yes    yes       -c        yes
    authorization           yes    yes       yes       yes
    headers                 yes    yes       -d        yes
    allowed_tools           yes    yes       yes       yes
    allowed_tools.read_only yes    -b        -e        -e
    require_approval        yes    -f        -g        -g
    defer_loading           yes    -b        -h        -h
    allowed_callers         yes    -b        -i        -i
    """,
    notes={
        "a": "it reaches servers by address only; give a server_url",
        "b": OWN_ADAPTER,
        "c": "pydantic-ai does not send it; leave it out",
        "d": "it sends no headers of yours; use authorization",
        "e": "it picks tools by name only; list their names",
        "f": f"{OWN_ADAPTER}, or set 'never'",
        "g": (
            "nobody can be asked before a call; set require_approval='never' and allow only "
            "tools that need no approval, or connect to the server from here"
        ),
        "h": "pydantic-ai shows all its tools at once; leave it out",
        "i": "no program of the model's can call them there; leave it out",
    },
    absent={
        "google": "pydantic-ai connects Gemini to no MCP servers; connect to the server from here",
        "google-vertex": (
            "pydantic-ai connects Gemini to no MCP servers; connect to the server from here"
        ),
    },
    elsewhere=f"pydantic-ai offers no MCP servers there; {FALLBACK}",
)

SHELL: Final = support_table(
    """
                             openai
    (tool)                   yes
    container.id             yes
    container.memory_limit   yes
    container.file_ids       yes
    container.network_policy yes
    skills                   yes
    allowed_callers          yes
    local                    yes
    local.skills             yes
    local.allowed_callers    yes
    """,
    elsewhere=f"pydantic-ai has no such tool; {FALLBACK}",
)

APPLY_PATCH: Final = support_table(
    """
                    openai
    (tool)          yes
    allowed_callers yes
    """,
    elsewhere=f"pydantic-ai has no such tool; {FALLBACK}",
)

MEMORY: Final = support_table(
    """
           anthropic
    (tool) yes
    """,
    absent={
        "openai": f"OpenAI has no such tool; {FALLBACK}",
    },
    elsewhere=f"only Anthropic defines this tool; {FALLBACK}",
)

COMPUTER: Final = support_table(
    """
                   openai
    (tool)         yes
    environment    yes
    display_width  yes
    display_height yes
    """,
    elsewhere=f"pydantic-ai has no such tool; {FALLBACK}",
)

PROGRAM: Final = support_table(
    """
           openai
    (tool) yes
    """,
    elsewhere="pydantic-ai offers no programs there; let the model call the tools itself",
)

TOOL_SEARCH: Final = support_table(
    """
           openai responses anthropic
    (tool) yes    +a        +b
    local  yes    -c        -d
    """,
    notes={
        "a": "only GPT-5.4 and later",
        "b": "only Claude 4.5 and later",
        "c": OWN_ADAPTER,
        "d": "pydantic-ai searches with a function; declare one yourself",
    },
    elsewhere="pydantic-ai offers no tool search there; offer fewer tools",
)


MATRIX: Final[Mapping[str, KindSupport]] = {
    "web_search": WEB_SEARCH,
    "x_search": X_SEARCH,
    "web_fetch": WEB_FETCH,
    "code_interpreter": CODE_INTERPRETER,
    "file_search": FILE_SEARCH,
    "image_generation": IMAGE_GENERATION,
    "mcp": MCP,
    "shell": SHELL,
    "apply_patch": APPLY_PATCH,
    "memory": MEMORY,
    "tool_search": TOOL_SEARCH,
    "program": PROGRAM,
    "computer": COMPUTER,
}
