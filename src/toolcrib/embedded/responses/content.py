"""Files and images in messages and results, made readable for a backend before it is asked."""

from __future__ import annotations

import asyncio
import base64
import binascii
import tempfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

from toolcrib.embedded.faults import invalid
from toolcrib.embedded.responses.request import Item
from toolcrib.embedded.search.documents import CSV, SUPPORTED
from toolcrib.embedded.web.download import DownloadKind, download, download_client
from toolcrib.embedded.web.image import MAX_IMAGE_BYTES, image_address
from toolcrib.errors import UnreadableDocument
from toolcrib.vfs.names import safe_name

if TYPE_CHECKING:
    from toolcrib.egress import EgressPolicy
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.file_repository import FileRepository
    from toolcrib.embedded.search.reader import DocumentReader

MAX_FILES: Final = 20
MAX_FILE_BYTES: Final = 50 * 1024 * 1024
MAX_CHARACTERS: Final = 2_000_000
"""The most text of all files of one request, with the conversation that it continues."""
CONTENT_SECONDS: Final = 120
"""The most time for all files of one request."""
_CACHED_CHARACTERS: Final = 2 * MAX_CHARACTERS
_TOO_LARGE: Final = f"A file has more than {MAX_FILE_BYTES} bytes."
_FILE: Final = DownloadKind("A file", "input.file_url", _TOO_LARGE)
_ENDINGS: Final = {
    "application/pdf": ".pdf",
    "application/json": ".json",
    "application/xhtml+xml": ".html",
    "application/yaml": ".yaml",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "text/tab-separated-values": ".tsv",
}
_PLACES: Final = ("content", "output")
"""The members of an item that may hold parts."""


@dataclass(frozen=True, slots=True)
class _FileBytes:
    """A file of a request: its name, the ending that says its format, and where its bytes are."""

    name: str
    ending: str
    key: str
    content: bytes | Path


class ContentReader:
    """Reads the files of requests. Their text is cached, because a conversation repeats them."""

    def __init__(self, files: FileRepository, reader: DocumentReader, egress: EgressPolicy) -> None:
        self.files = files
        self.egress = egress
        self._reader = reader
        self._texts: OrderedDict[str, str] = OrderedDict()

    async def text(self, file: _FileBytes, owner: str, param: str) -> str:
        """The text of a file. Raises `ApiFault`."""
        known = self._texts.get(file.key)
        if known is not None:
            self._texts.move_to_end(file.key)
            return known
        try:
            text = await self._read(file, owner)
        except UnreadableDocument as error:
            raise invalid(f"The file '{file.name}' cannot be read: {error}.", param) from None
        self._texts[file.key] = text
        while sum(map(len, self._texts.values())) > _CACHED_CHARACTERS:
            self._texts.popitem(last=False)
        return text

    async def _read(self, file: _FileBytes, owner: str) -> str:
        name = f"file{file.ending}"
        if isinstance(file.content, Path):
            document = await self._reader.read(name, file.content, owner, marks_pages=True)
            return document.text
        with tempfile.TemporaryDirectory(prefix="toolcrib-input-") as folder:
            path = Path(folder) / "input"
            await asyncio.to_thread(path.write_bytes, file.content)
            document = await self._reader.read(name, path, owner, marks_pages=True)
        return document.text


class ContentResolver:
    """Resolves the parts of one request: the text of a file takes the place of the file, and an
    image that was uploaded becomes a `data:` address.

    Without `reads_images` an image is refused: a model that does not see must not answer as if.
    """

    def __init__(
        self, reader: ContentReader, access: ResourceAccess, *, reads_images: bool = True
    ) -> None:
        self._reader = reader
        self._access = access
        self._reads_images = reads_images
        self._files = 0
        self._characters = 0
        self._deadline: float | None = None

    async def resolve(self, item: Item, param: str) -> Item:
        """An item without files. Raises `ApiFault`."""
        for place in _PLACES:
            parts: object = item.get(place)
            if isinstance(parts, list) and any(map(_is_elsewhere, cast(list[object], parts))):
                resolved = await self._parts(cast(list[object], parts), f"{param}.{place}")
                item = {**item, place: resolved}
        return item

    async def _parts(self, parts: Sequence[object], param: str) -> list[object]:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + CONTENT_SECONDS
        try:
            async with asyncio.timeout_at(self._deadline):
                return [await self._part(part, f"{param}[{at}]") for at, part in enumerate(parts)]
        except TimeoutError:
            message = f"Reading the files of a request takes more than {CONTENT_SECONDS} seconds."
            raise invalid(message, param) from None

    async def _part(self, part: object, param: str) -> object:
        if not _is_elsewhere(part):
            return part
        fields = cast(dict[str, Any], part)
        if fields["type"] == "input_image":
            return await self._image(fields, param)
        return {"type": "input_text", "text": await self._file_text(fields, param)}

    async def _image(self, part: Mapping[str, Any], param: str) -> Mapping[str, Any]:
        if not self._reads_images:
            message = "This model does not read images; leave them out, or ask another model."
            raise invalid(message, param, "unsupported_value")
        if part.get("image_url"):
            return part
        file_id = part.get("file_id")
        if not isinstance(file_id, str):
            raise invalid("An image needs an 'image_url' or a 'file_id'.", param)
        self._count(param)
        stored = await self._reader.files.get(file_id, self._access, f"{param}.file_id")
        if stored.bytes > MAX_IMAGE_BYTES:
            raise invalid(f"An image has more than {MAX_IMAGE_BYTES} bytes.", param)
        address = image_address(await self._reader.files.read(file_id, f"{param}.file_id"))
        if address is None:
            message = f"The file '{stored.filename}' is no PNG, JPEG, GIF or WebP image."
            raise invalid(message, f"{param}.file_id")
        return {**part, "image_url": address}

    async def _file_text(self, part: Mapping[str, Any], param: str) -> str:
        self._count(param)
        file = await self._file(part, param)
        text = await self._reader.text(file, self._access.owner, param)
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise invalid(
                f"The files of this request have more than {MAX_CHARACTERS} characters of text; "
                "put them into a vector store and search them with file_search.",
                param,
            )
        return f"[file {file.name}]\n{text}\n[end of file {file.name}]"

    def _count(self, param: str) -> None:
        self._files += 1
        if self._files > MAX_FILES:
            raise invalid(f"A request may have at most {MAX_FILES} files.", param)

    async def _file(self, part: Mapping[str, Any], param: str) -> _FileBytes:
        name = part.get("filename")
        name = safe_name(name) if isinstance(name, str) else ""
        match part:
            case {"file_id": str() as file_id}:
                return await self._uploaded(file_id, f"{param}.file_id")
            case {"file_data": str() as data}:
                media_type, content = _decoded(data, f"{param}.file_data")
            case {"file_url": str() as address}:
                async with download_client(self._reader.egress) as client:
                    fetched = await download(client, address, _FILE, MAX_FILE_BYTES)
                media_type, content = fetched.media_type, fetched.data
                name = name or _name_in(address)
            case _:
                raise invalid("A file needs 'file_id', 'file_data' or 'file_url'.", param)
        ending = _ending(name, media_type, content[:5], param)
        key = f"{ending} {sha256(content).hexdigest()}"
        return _FileBytes(name or f"file{ending}", _plain(ending), key, content)

    async def _uploaded(self, file_id: str, param: str) -> _FileBytes:
        stored = await self._reader.files.get(file_id, self._access, param)
        if stored.bytes > MAX_FILE_BYTES:
            raise invalid(_TOO_LARGE, param)
        ending = _ending(stored.filename, "", b"", param)
        path = await self._reader.files.path(stored)
        return _FileBytes(stored.filename, _plain(ending), file_id, path)


def _is_elsewhere(part: object) -> bool:
    if not isinstance(part, dict):
        return False
    return cast(dict[str, Any], part).get("type") in ("input_file", "input_image")


def _decoded(data: str, param: str) -> tuple[str, bytes]:
    """The media type and the bytes of a `data:` address, or of plain base64."""
    head, comma, encoded = data.partition(",") if data.startswith("data:") else ("", "", data)
    media_type = head.removeprefix("data:").partition(";")[0].lower()
    try:
        if comma and not head.endswith(";base64"):
            return media_type, unquote(encoded).encode()
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise invalid("'file_data' must be base64, best as a data: URL.", param) from None
    return media_type, content


def _ending(name: str, media_type: str, start: bytes, param: str) -> str:
    """The ending that says the format: that of the name, or that of the media type."""
    ending = PurePosixPath(name).suffix.lower()
    if ending and ending in SUPPORTED:
        return ending
    if not ending or media_type in _ENDINGS:
        if media_type in _ENDINGS:
            return _ENDINGS[media_type]
        if start == b"%PDF-":
            return ".pdf"
        if not media_type or media_type.startswith("text/"):
            return ".txt"
    have = ", ".join(sorted(filter(None, SUPPORTED)))
    raise invalid(
        f"Files of type '{(ending or media_type)[:80]}' cannot be read here; there are {have}.",
        param,
        "unsupported_file",
    )


def _plain(ending: str) -> str:
    """The format to read: a model reads a table as it is, without the search's form of rows."""
    return ".txt" if ending in CSV else ending


def _name_in(address: str) -> str:
    name = PurePosixPath(unquote(urlsplit(address).path)).name
    return safe_name(name) if name else ""
