"""Which types of files are uploaded to OpenAI's containers.

The provider's list is its own and changes. This one keeps what cannot be meant (keys, databases,
programs) from leaving the host by a wide pattern, and an adapter can be given another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Final

from toolcrib.errors import UsageError

_CODE: Final = (
    ".c .cc .cpp .cs .css .go .h .hpp .htm .html .ipynb .java .js .jsx .kt .lua .php .pl .pyi .py"
    " .r .rb .rs .scala .sh .sql .swift .tex .ts .tsx .vue"
)
_DOCUMENTS: Final = ".doc .docx .eml .epub .md .odp .ods .odt .pdf .ppt .pptx .rst .rtf .txt"
_IMAGES: Final = ".bmp .gif .jpeg .jpg .png .svg .tif .tiff .webp"
_ARCHIVES: Final = ".7z .bz2 .gz .tar .tgz .xz .zip"
_DATA: Final = (
    ".arrow .avro .csv .feather .geojson .h5 .hdf5 .json .jsonl .log .mat .ndjson .npy .npz"
    " .parquet .pkl .sav .toml .tsv .xls .xlsm .xlsx .xml .yaml .yml"
)

SUPPORTED_TYPES: Final = frozenset(
    " ".join((_CODE, _DOCUMENTS, _IMAGES, _ARCHIVES, _DATA)).split(" ")
)
"""Extensions in lower case. Files without an extension are the empty text; `*` is any type."""

_MOST_NAMED: Final = 10


def check_types(types: Collection[str]) -> frozenset[str]:
    """The types as they are compared. Raises `UsageError` for what is no extension."""
    if isinstance(types, str):
        raise UsageError(f"upload_types must be a set of extensions, not {types!r}")
    for each in types:
        if not isinstance(each, str) or not (each in ("", "*") or each.startswith(".")):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"upload_types: {each!r} is not an extension like '.csv'; '' is none, '*' any"
            )
    return frozenset(each.lower() for each in types)


def refuse_other_types(names: Iterable[str], types: Collection[str], tool: str) -> None:
    """Raise `UsageError`, with all of their names, for files that are of none of the types."""
    if "*" in types:
        return
    refused = [name for name in names if PurePosixPath(name).suffix.lower() not in types]
    if not refused:
        return
    shown = ", ".join(refused[:_MOST_NAMED])
    if len(refused) > _MOST_NAMED:
        shown += f" and {len(refused) - _MOST_NAMED} more"
    raise UsageError(
        f"host_mounts of {tool!r} hold files of types that are not uploaded: {shown}. Leave them "
        "out with exclude_glob, or give the adapter upload_types that include them; allowed are "
        f"{' '.join(sorted(types))}"
    )
