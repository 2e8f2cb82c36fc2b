"""The Embeddings API without HTTP: vectors of texts by the provider's embedder."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, cast, runtime_checkable

from annotated_types import Ge, MaxLen, MinLen
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as checked

from toolcrib.embedded.faults import invalid
from toolcrib.embedded.responses.request import read_body
from toolcrib.errors import ApiFault, UsageError
from toolcrib.extras import install_command

if TYPE_CHECKING:
    from toolcrib.embedded.search.embedder import Embedder

MAX_INPUTS: Final = 2048
_AT_ONCE: Final = 64
"""Texts of one request before a search may use the embedder."""

_BYTES_PER_TOKEN: Final = 4
_FLOAT_BYTES: Final = 4
_Text = Annotated[str, MinLen(1)]


@runtime_checkable
class TokenCountingEmbedder(Protocol):
    """An embedder that counts the tokens of texts, and cuts texts after `max_tokens`."""

    max_tokens: int

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, also of those that are cut off."""
        ...


@checked(frozen=True, config=ConfigDict(extra="ignore", strict=True))
class EmbeddingRequest:
    """The parameters of a request."""

    model: str
    input: _Text | Annotated[list[_Text], MinLen(1), MaxLen(MAX_INPUTS)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Ge(1)] | None = None
    user: str | None = None

    @property
    def texts(self) -> list[str]:
        """The texts to embed."""
        return [self.input] if isinstance(self.input, str) else self.input


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """The list of vectors, and what the caller should know about them."""

    resource: dict[str, Any]
    warnings: tuple[str, ...] = ()


class EmbeddingService:
    """Embeds texts. Without an embedder every request is refused."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder

    async def create(self, body: object) -> EmbeddingAnswer:
        """Embed the texts of a request. Raises `ApiFault`."""
        _refuse_tokens(body)
        request = read_body(_adapter(), body)
        embedder = self._named(request.model)
        if request.dimensions not in (None, embedder.size):
            message = f"The vectors of {embedder.name} have {embedder.size} dimensions, no others."
            raise invalid(message, "dimensions", "unsupported_value")
        try:
            counts = await asyncio.to_thread(_counts, embedder, request.texts)
            vectors = await _vectors(embedder, request.texts)
        except UsageError as error:
            raise ApiFault(503, f"{error}", kind="server_error", code="missing_extra") from None
        data = [
            {"object": "embedding", "index": index, "embedding": _shown(vector, request)}
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
        resource = {"object": "list", "model": embedder.name, "data": data, "usage": usage}
        return EmbeddingAnswer(resource, _warnings(embedder, counts))

    def _named(self, model: str) -> Embedder:
        if self._embedder is None:
            raise ApiFault(
                404,
                "This provider has no embedder. Its operator adds one: EmbeddedProvider(..., "
                f"embedder=MiniLmEmbedder()), after: {install_command('search')}",
                code="model_not_found",
                param="model",
            )
        if model != self._embedder.name:
            raise ApiFault(
                404,
                f"The embedding model '{model[:80]}' does not exist here; there is "
                f"{self._embedder.name}.",
                code="model_not_found",
                param="model",
            )
        return self._embedder


def _refuse_tokens(body: object) -> None:
    """Raises `ApiFault` for tokens: they are of another model's tokenizer."""
    sent = cast(dict[str, Any], body) if isinstance(body, dict) else {}
    value: object = sent.get("input")
    texts = cast(list[object], value) if isinstance(value, list) else []
    if texts and isinstance(texts[0], int | list):
        message = (
            "Send texts: tokens are of the tokenizer of another model. With langchain, use "
            "OpenAIEmbeddings(check_embedding_ctx_length=False)."
        )
        raise invalid(message, "input", "unsupported_value")


@cache
def _adapter() -> TypeAdapter[EmbeddingRequest]:
    return TypeAdapter(EmbeddingRequest)


async def _vectors(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    vectors: list[bytes] = []
    for at in range(0, len(texts), _AT_ONCE):
        vectors += await asyncio.to_thread(embedder.embed, texts[at : at + _AT_ONCE])
    return vectors


def _counts(embedder: Embedder, texts: Sequence[str]) -> list[int]:
    if isinstance(embedder, TokenCountingEmbedder):
        return embedder.token_counts(texts)
    return [-(-len(text.encode()) // _BYTES_PER_TOKEN) for text in texts]


def _warnings(embedder: Embedder, counts: Sequence[int]) -> tuple[str, ...]:
    if not isinstance(embedder, TokenCountingEmbedder):
        return ()
    cut = [str(index) for index, count in enumerate(counts) if count > embedder.max_tokens]
    if not cut:
        return ()
    names = ", ".join(cut[:20])
    return (f"only the first {embedder.max_tokens} tokens were embedded of input {names}",)


def _shown(vector: bytes, request: EmbeddingRequest) -> str | list[float]:
    if request.encoding_format == "base64":
        return base64.b64encode(vector).decode()
    return list(struct.unpack(f"<{len(vector) // _FLOAT_BYTES}f", vector))
