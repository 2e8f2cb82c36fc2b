"""Which call made a file that a message cites.

No provider says it, and the citation may come steps after the call. The rule: the last call in the
file's container before the first message that cites the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any, cast

from toolcrib.adapters.answer import placed_annotations
from toolcrib.adapters.items import Item, ModelMessage
from toolcrib.tools.citations import ContainerFileCitation, GeneratedFile


def files_by_call(
    containers: Mapping[int, str | None], messages: Sequence[Item | None]
) -> dict[int, tuple[GeneratedFile, ...]]:
    """The files of each call, by the index of its item. `containers` has the container of every
    call, or None when its item does not name one.

    A file comes once, with the place where the answer first mentions it.
    """
    makers: dict[tuple[str, str], int] = {}
    files: dict[int, dict[tuple[str, str], GeneratedFile]] = {}
    for placed in placed_annotations(messages):
        cited = placed.citation()
        if not isinstance(cited, ContainerFileCitation):
            continue
        key = cited.container_id, cited.file_id
        maker = makers.get(key, _maker(cited.container_id, placed.item_index, containers))
        if maker is None:
            continue
        makers[key] = maker
        known = files.setdefault(maker, {}).get(key)
        if known is None or (known.span is None and cited.span is not None):
            files[maker][key] = GeneratedFile(*key, cited.filename, cited.span)
    return {index: tuple(made.values()) for index, made in files.items()}


def _maker(container: str, before: int, containers: Mapping[int, str | None]) -> int | None:
    earlier = sorted((index for index in containers if index < before), reverse=True)
    named = (index for index in earlier if containers[index] == container)
    nameless = (index for index in earlier if containers[index] is None)
    return next(named, next(nameless, None))


def cites_files(item: Item) -> bool:
    """Whether an item is a message that cites files of a container."""
    return isinstance(item, ModelMessage) and any(
        isinstance(note.citation, ContainerFileCitation)
        for text in item.texts
        for note in text.annotations
    )


def files_of_value(value: Any) -> tuple[GeneratedFile, ...]:
    """The files of a result, where it is of a type that has files."""
    files: Any = getattr(value, "files", ())
    if not isinstance(files, tuple):
        return ()
    members = cast("tuple[Any, ...]", files)
    return tuple(file for file in members if isinstance(file, GeneratedFile))


def with_files(value: Any, files: Sequence[GeneratedFile]) -> Any:
    """A result with further files, where it is of a type that has files; else as it is."""
    has_files = isinstance(getattr(value, "files", None), tuple)
    if has_files and is_dataclass(value) and not isinstance(value, type):
        return replace(value, files=unique_files([*files_of_value(value), *files]))
    return value


def unique_files(files: Sequence[GeneratedFile]) -> tuple[GeneratedFile, ...]:
    """Each file once, with a place where there is one."""
    by_id: dict[tuple[str, str], GeneratedFile] = {}
    for file in files:
        key = file.container_id, file.file_id
        known = by_id.get(key)
        if known is None or known.span is None:
            by_id[key] = file
    return tuple(by_id.values())
