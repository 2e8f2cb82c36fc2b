"""Names that a model chose, made fit to be written."""

import os
import unicodedata
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.vfs.names import LONGEST_NAME, numbered, safe_name

ODD = st.text(st.sampled_from('ab./\\:*?"<>|~- \0\n\x1b\u202e\u200b\u2028é漢😀'), max_size=40)
RESERVED = st.sampled_from(["CON", "nul", "Com1", "lpt9", "AUX", "conin$", "COM¹"]).flatmap(
    lambda device: st.sampled_from(["", ".txt", ".", " ", " .tar.gz"]).map(device.__add__)
)
ANY = st.text(max_size=300) | ODD | RESERVED | st.text("a.", min_size=190, max_size=400)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plot.png", "plot.png"),
        ("/mnt/data/plot.png", "plot.png"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\evil.exe", "evil.exe"),
        ("C:\\Windows\\win.ini", "win.ini"),
        ("C:evil.txt", "C_evil.txt"),
        ("a.txt:stream", "a.txt_stream"),
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("~root", "root"),
        ("re\nport\x1b[31m.csv", "report[31m.csv"),
        ("gnp.\u202etxt.exe", "gnp.txt.exe"),
        ("nul.txt", "_nul.txt"),
        ("COM1", "_COM1"),
        ("trailing. . ", "trailing"),
        ("Übersicht 漢字.csv", "Übersicht 漢字.csv"),
        ("e\u0301.txt", "é.txt"),
        ("", "cfile_1"),
        ("..", "cfile_1"),
        ("/", "cfile_1"),
        ("\0", "cfile_1"),
    ],
)
def test_a_name_keeps_what_is_harmless(name: str, expected: str) -> None:
    """E9: the last part only, without what hides, climbs, colours or names a device."""
    assert safe_name(name, "cfile_1") == expected


def test_a_fallback_is_cleaned_too() -> None:
    """Ids come from outside as well; without any name at all there is still one."""
    assert safe_name("..", "../../x") == "x"
    assert safe_name("", "") == "file"


def test_a_long_name_keeps_its_extension() -> None:
    """Cutting by bytes never splits a character and never loses the type."""
    name = safe_name("漢" * 300 + ".csv")

    assert name.endswith("漢.csv")
    assert LONGEST_NAME - 4 <= len(name.encode()) <= LONGEST_NAME


@given(ANY | st.just(""), ANY)
def test_whatever_comes_in_a_plain_name_comes_out(name: str, fallback: str) -> None:
    """E9: one visible name without separators, on any system, and never a device."""
    safe = safe_name(name, fallback)

    assert PurePosixPath(safe).name == safe == PureWindowsPath(safe).name
    assert not PureWindowsPath(safe).is_reserved()
    assert safe not in ("", ".", "..")
    assert not safe.startswith((".", "-", "~", " "))
    assert not safe.endswith((".", " "))
    assert 0 < len(safe.encode()) <= LONGEST_NAME
    assert all(unicodedata.category(each)[0] not in "C" for each in safe)
    assert safe_name(safe) == safe


@given(ANY, st.integers(0, 999))
def test_numbered_names_are_safe_and_different(name: str, number: int) -> None:
    """E9: a sibling of a safe name is a safe name."""
    safe = safe_name(name)
    sibling = numbered(safe, number)

    assert os.path.basename(sibling) == sibling
    assert len(sibling.encode()) < 255
    assert (sibling == safe) is (number == 0)


def test_numbers_stand_before_the_extension() -> None:
    """A second plot is still a picture."""
    assert [numbered("plot.png", number) for number in range(3)] == [
        "plot.png",
        "plot-1.png",
        "plot-2.png",
    ]
    assert numbered("README", 1) == "README-1"


@given(st.lists(ANY, max_size=5))
def test_every_safe_name_can_be_written(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    """A real file system takes each of them, inside the folder."""
    folder = tmp_path_factory.mktemp("names")
    for name in names:
        path = folder / safe_name(name)
        path.write_text("x")
        assert Path(os.path.realpath(path)).parent == Path(os.path.realpath(folder))
