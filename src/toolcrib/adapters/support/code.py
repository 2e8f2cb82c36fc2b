"""What runs code, commands and patches, or keeps notes, and where."""

from __future__ import annotations

from typing import Final

from toolcrib.adapters.support.cell import Kind
from toolcrib.adapters.support.rows import BEFORE_GEMINI_3, GEMINI, LOCAL, OWN_ADAPTER, cells, where

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
