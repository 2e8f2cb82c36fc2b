"""Which types of files are uploaded."""

from typing import Any

import pytest

from toolcrib.adapters.openai.host_files import SUPPORTED_TYPES, check_types, refuse_other_types
from toolcrib.errors import UsageError


def test_the_documents_types_are_taken() -> None:
    """C30: code, documents, images, archives and data, in any case."""
    names = ["a.csv", "a.png", "a.zip", "a.pdf", "a.py", "a.ipynb", "A.CSV", "deep/a.tar.gz"]

    refuse_other_types(names, SUPPORTED_TYPES, "python")


@pytest.mark.parametrize("name", ["a.exe", ".env", "id_rsa", "key.pem", "app.sqlite3", "a.csv/x"])
def test_other_types_are_refused(name: str) -> None:
    """C30: what is not in the table is named, with the tool and the way out."""
    with pytest.raises(UsageError, match=rf"'python'.*: {name}\. .*exclude_glob.*upload_types"):
        refuse_other_types(["a.csv", name], SUPPORTED_TYPES, "python")


def test_all_of_them_are_named_up_to_a_point() -> None:
    """C30: one error lists what is wrong, and counts what it does not list."""
    with pytest.raises(UsageError, match=r"0\.exe, 1\.exe, .* 9\.exe and 2 more\."):
        refuse_other_types([f"{number}.exe" for number in range(12)], SUPPORTED_TYPES, "python")


def test_the_table_can_be_replaced() -> None:
    """C30: the provider's list changes, so ours is a default."""
    refuse_other_types(["Makefile", "a.F90"], check_types({"", ".f90"}), "python")
    refuse_other_types(["anything", "a.exe"], check_types({"*"}), "python")
    with pytest.raises(UsageError, match=r"a\.csv"):
        refuse_other_types(["a.csv"], check_types({".txt"}), "python")


@pytest.mark.parametrize("types", [".csv", ["csv"], [1], ["*.csv"]])
def test_what_is_no_extension_is_refused(types: Any) -> None:
    """A misspelt type would otherwise refuse every file."""
    with pytest.raises(UsageError, match="upload_types"):
        check_types(types)
