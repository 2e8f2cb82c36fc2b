"""The images and documents of a Messages request, read from the request, a file or an address."""

from __future__ import annotations

import asyncio
import base64
import binascii
import tempfile
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.egress import egress_client
from toolcrib.embedded.faults import invalid
from toolcrib.errors import EgressRefused, UnreadableDocument

if TYPE_CHECKING:
    from toolcrib.egress import EgressPolicy
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.file_repository import FileRepository
    from toolcrib.embedded.messages.request import Block
    from toolcrib.embedded.search.reader import DocumentReader

MAX_DOCUMENT_BYTES: Final = 32 * 1024 * 1024
_FETCH_SECONDS: Final = 30.0
_SUFFIXES: Final = {"application/pdf": ".pdf", "text/html": ".html", "text/csv": ".csv"}
_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")


class RequestAttachments:
    """Reads what the blocks of one request name, as far as its principal may."""

    def __init__(
        self,
        files: FileRepository,
        reader: DocumentReader,
        egress: EgressPolicy,
        access: ResourceAccess,
        *,
        reads_images: bool,
    ) -> None:
        self._files = files
        self._reader = reader
        self._egress = egress
        self._access = access
        self._reads_images = reads_images

    async def image(self, source: Block, at: str) -> str:
        """The address of an image. Raises `ApiFault`, also when the model does not read images: it
        must not answer as if it had seen one.
        """
        if not self._reads_images:
            raise invalid(f"{at}: this model does not read images; send text instead.")
        match source.get("type"):
            case "url" if isinstance(source.get("url"), str):
                return str(source["url"])
            case "base64":
                kind = source.get("media_type")
                if kind not in _IMAGES:
                    raise invalid(f"{at}.source.media_type: it must be one of {', '.join(_IMAGES)}")
                _decoded(source.get("data"), at)
                return f"data:{kind};base64,{source['data']}"
            case "file":
                name, data = await self._file(source, at)
                kind = guess_type(name)[0]
                if kind not in _IMAGES:
                    raise invalid(f"{at}.source: the file {name[:80]!r} is no image.")
                return f"data:{kind};base64,{base64.b64encode(data).decode()}"
            case kind:
                raise _unknown(kind, at)

    async def document(self, block: Block, at: str) -> str:
        """The text of a document. Raises `ApiFault`."""
        source: Any = block.get("source")
        facts = cast(dict[str, Any], source) if isinstance(source, dict) else {}
        title = str(block.get("title") or "document")
        match facts.get("type"):
            case "text":
                return str(facts.get("data", ""))
            case "content":
                return _content_text(facts.get("content"), at)
            case "base64":
                suffix = _SUFFIXES.get(str(facts.get("media_type")), ".txt")
                return await self._read(f"{title}{suffix}", _decoded(facts.get("data"), at), at)
            case "file":
                name, data = await self._file(facts, at)
                return await self._read(name, data, at)
            case "url" if isinstance(facts.get("url"), str):
                suffix, data = await self._fetched(facts["url"], at)
                return await self._read(f"{title}{suffix}", data, at)
            case kind:
                raise _unknown(kind, at)

    async def _file(self, source: Block, at: str) -> tuple[str, bytes]:
        file_id = source.get("file_id")
        if not isinstance(file_id, str):
            raise invalid(f"{at}.source.file_id: Field required")
        stored = await self._files.get(file_id, self._access)
        return stored.filename, await self._files.read(file_id)

    async def _read(self, name: str, data: bytes, at: str) -> str:
        with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
            path = Path(folder) / "document"
            await asyncio.to_thread(path.write_bytes, data)
            try:
                return (await self._reader.read(name, path, self._access.owner)).text
            except UnreadableDocument as error:
                raise invalid(f"{at}.source: the document cannot be read: {error}.") from None

    async def _fetched(self, url: str, at: str) -> tuple[str, bytes]:
        import httpx2

        body = bytearray()
        try:
            async with (
                asyncio.timeout(_FETCH_SECONDS),
                egress_client(self._egress, follow_redirects=True, max_redirects=5) as client,
                client.stream("GET", url, headers={"accept-encoding": "identity"}) as response,
            ):
                if response.status_code != 200:
                    raise invalid(f"{at}.source.url: it does not answer with a document.")
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MAX_DOCUMENT_BYTES:
                        raise invalid(f"{at}.source.url: it has over {MAX_DOCUMENT_BYTES} bytes.")
                kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        except EgressRefused as refused:
            raise invalid(f"{at}.source.url: it was not fetched: {refused}.") from None
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL):
            raise invalid(f"{at}.source.url: it does not answer.") from None
        return _SUFFIXES.get(kind, ".txt"), bytes(body)


def _decoded(data: object, at: str) -> bytes:
    if not isinstance(data, str):
        raise invalid(f"{at}.source.data: Field required")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"{at}.source.data: it is not valid base64.") from None


def _content_text(content: object, at: str) -> str:
    if isinstance(content, str):
        return content
    parts = cast(list[object], content) if isinstance(content, list) else []
    texts: list[str] = []
    for part in parts:
        facts = cast(dict[str, Any], part) if isinstance(part, dict) else {}
        if facts.get("type") != "text":
            raise invalid(f"{at}.source.content: only text is read here.")
        texts.append(str(facts.get("text", "")))
    return "\n".join(texts)


def _unknown(kind: object, at: str) -> Exception:
    return invalid(f"{at}.source: a source of type {str(kind)[:80]!r} cannot be read here.")
