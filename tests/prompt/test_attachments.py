"""Attachments: by path, bytes, file id or text, and refused when they cannot be sent."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.prompt.samples import prompt, section
from toolcrib.errors import InvalidPrompt
from toolcrib.prompt import FileAttachment, TextAttachment


def test_attachments_are_carried_in_order(tmp_path: Path) -> None:
    """`bind` adds to what is there, and rendering hands everything to the adapter."""
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF")
    first = TextAttachment("some words", title="Notes")
    others = [
        FileAttachment(path=path),
        FileAttachment(data=b"\x89PNG", name="plot.png"),
        FileAttachment(file_id="file_1"),
    ]

    made = prompt(section(), attachments=[first])

    assert made.bind(attachments=others).render().attachments == (first, *others)
    assert made.attachments == (first,)


@pytest.mark.parametrize(
    ("file", "name", "kind", "is_image"),
    [
        (FileAttachment(path=Path("a/report.pdf")), "report.pdf", "application/pdf", False),
        (FileAttachment(path=Path("a/plot.png")), "plot.png", "image/png", True),
        (FileAttachment(path=Path("raw"), name="x.csv"), "x.csv", "text/csv", False),
        (FileAttachment(path=Path("raw")), "raw", "application/octet-stream", False),
        (FileAttachment(data=b"", media_type="IMAGE/webp"), "attachment", "IMAGE/webp", True),
        (FileAttachment(data=b"", name="a.png", media_type="text/plain"), "a.png", None, False),
        (FileAttachment(file_id="f", media_type="image/png"), "attachment", "image/png", True),
        (FileAttachment(file_id="f"), "attachment", "application/octet-stream", False),
    ],
)
def test_what_a_file_is_follows_from_its_type_or_name(
    file: FileAttachment, name: str, kind: str | None, is_image: bool
) -> None:
    """A given media type wins over the name, and a given name over the path."""
    assert (file.file_name, file.is_image) == (name, is_image)
    assert file.kind == (kind or file.media_type)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"name": "a.txt"},
        {"path": Path("a"), "data": b""},
        {"path": Path("a"), "file_id": "f"},
        {"data": b"", "file_id": "f", "name": "a"},
    ],
)
def test_a_file_is_given_in_exactly_one_way(parts: dict[str, Any]) -> None:
    """Nothing to send, or two things that may differ, is a mistake."""
    with pytest.raises(InvalidPrompt, match="exactly one of path, data and file_id"):
        FileAttachment(**parts)


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"path": "report.pdf"}, "path of an attachment is a Path, not str"),
        ({"data": "text", "name": "a"}, "data of an attachment is a bytes, not str"),
        ({"file_id": 5}, "file_id of an attachment is a str, not int"),
        ({"file_id": " "}, "file_id is empty"),
        ({"data": b"x"}, "attached bytes need a name or a media_type"),
        ({"data": b"x", "media_type": "png"}, "media_type is written like 'image/png', not 'png'"),
        ({"data": b"x", "media_type": "image/png;x,y"}, "media_type is written like"),
    ],
)
def test_parts_that_cannot_be_sent_are_refused(parts: dict[str, Any], fault: str) -> None:
    """Found when the attachment is written, and the error names the part."""
    with pytest.raises(InvalidPrompt, match=fault):
        FileAttachment(**parts)


def test_attached_text_is_text() -> None:
    """Bytes would be sent as their Python notation."""
    text: Any = b"words"

    with pytest.raises(InvalidPrompt, match="attached text is a str, not bytes"):
        TextAttachment(text)


@pytest.mark.parametrize("thing", ["text", b"bytes", Path("a"), 5])
def test_only_attachments_can_be_attached(thing: Any) -> None:
    """A bare text or path is refused with what to write instead."""
    with pytest.raises(
        InvalidPrompt, match=r"prompt 'tests:sample': .* is no attachment; write TextAttachment"
    ):
        prompt(section()).bind(attachments=[thing])


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    """The limit itself still fits; one byte more does not, from a path as from bytes."""
    path = tmp_path / "data.bin"
    path.write_bytes(b"12345")

    for file in (FileAttachment(path=path), FileAttachment(data=b"12345", name="data.bin")):
        assert file.read(5) == b"12345"
        with pytest.raises(InvalidPrompt, match=r"^data\.bin has more than 4 bytes"):
            file.read(4)


def test_a_file_at_the_provider_cannot_be_read() -> None:
    """It is sent by its id; there are no bytes here."""
    with pytest.raises(InvalidPrompt, match="'file_1' lies with the provider"):
        FileAttachment(file_id="file_1").read(5)


def test_a_missing_file_is_found_at_rendering(tmp_path: Path) -> None:
    """Before anything is sent; the error names the prompt and the path."""
    path = tmp_path / "gone.txt"
    made = prompt(section()).bind(attachments=[FileAttachment(path=path)])

    with pytest.raises(InvalidPrompt, match=r"prompt 'tests:sample': cannot attach .*gone\.txt: "):
        made.render()
    path.write_text("here", "utf-8")
    assert made.render().attachments == made.attachments


def test_only_files_are_read(tmp_path: Path) -> None:
    """A directory cannot be sent, and reading a named pipe would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    for path in (tmp_path, pipe, tmp_path / "gone"):
        with pytest.raises(InvalidPrompt, match="cannot attach"):
            FileAttachment(path=path).read(5)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    """What the system says is passed on."""
    path = tmp_path / "locked"
    path.write_text("x", "utf-8")

    class Locked(type(path)):
        def open(self, *arguments: Any, **options: Any) -> Any:
            raise PermissionError(13, "Permission denied")

    with pytest.raises(InvalidPrompt, match=r"cannot attach .*locked: Permission denied"):
        FileAttachment(path=Locked(path)).read(5)


def test_bytes_are_not_shown() -> None:
    """The contents of an attachment do not end up in a log."""
    assert "hunter2" not in repr(FileAttachment(data=b"hunter2", name="key.pem"))
