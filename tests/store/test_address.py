"""Where a store is: files and URLs, and that passwords stay where they are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from toolcrib.errors import UsageError
from toolcrib.project.runtime import RuntimeOptions
from toolcrib.store import kept_store
from toolcrib.store.address import DatabaseUrl, store_address
from toolcrib.store.kept_store import open_at

URL = "postgresql://crib:p%40ss-word@db.example:5433/tools?password=other-word&sslmode=require"


def test_a_path_is_a_file_and_a_url_is_a_database(tmp_path: Path) -> None:
    """Whoever writes an address need not say which of the two it is."""
    assert store_address("crib.sqlite3") == Path("crib.sqlite3")
    assert store_address("crib.sqlite3", folder=tmp_path) == tmp_path / "crib.sqlite3"
    address = store_address("postgresql://db.example/tools")
    assert isinstance(address, DatabaseUrl)
    assert store_address(address) is address
    assert store_address("postgres://db.example/tools") != address


def test_the_text_of_a_url_is_without_its_secrets() -> None:
    """Addresses are printed, logged and put into errors; only the driver gets the password."""
    address = DatabaseUrl(URL)
    options = RuntimeOptions(store=address)

    assert str(address) == "postgresql://crib@db.example:5433/tools"
    for text in (str(address), repr(address), f"{address!s:>80}", repr(options)):
        assert "ss-word" not in text
        assert "other-word" not in text
    assert "ss-word" not in repr(asdict(options))
    assert address.url == URL
    assert address.without_secrets("no p%40ss-word, no other-word") == "no ***, no ***"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql:///tools?host=/run/postgresql", "postgresql:///tools"),
        (
            "postgresql://crib:w@%2Frun%2Fpostgresql/tools",
            "postgresql://crib@%2Frun%2Fpostgresql/tools",
        ),
        ("postgresql://crib:w@[::1]:5433/tools", "postgresql://crib@[::1]:5433/tools"),
        (
            "postgresql://crib:w@one:5432,two:5433/tools?target_session_attrs=read-write",
            "postgresql://crib@one:5432,two:5433/tools",
        ),
        ("postgresql://crib:w@[::1]:1,[::2]/tools", "postgresql://crib@[::1]:1,[::2]/tools"),
        ("postgresql://crib:w@w@one/tools", "postgresql://crib@one/tools"),
    ],
)
def test_every_form_of_a_url_that_the_driver_knows_is_taken(url: str, shown: str) -> None:
    """Sockets, addresses of version 6, and several hosts of which one is the primary."""
    assert (store_address(url), str(store_address(url))) == (DatabaseUrl(url), shown)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://crib:secret-word@db.example/tools",
        "postgresql://crib:secret-word@db.example:port/tools",
        "postgresql://crib:secret#word@db.example/tools",
        "postgresql:/[secret-word",
        "postgresql://crib@db.example:65536/secret",
        "postgresql://crib@db.example:5432,[::1/secret",
        # The first characters are taken for a port, and the rest for a database or for options.
        "postgresql://crib:12/secret-word@db.example/tools",
        "postgresql://crib:12?secret-word@db.example/tools",
    ],
)
def test_a_malformed_url_is_refused_without_showing_it(url: str) -> None:
    """The message says what to write, and not what was written: a password may be in it."""
    with pytest.raises(UsageError, match=r"of the store|a store") as refused:
        store_address(url)

    assert "secret" not in str(refused.value)


def test_without_the_extra_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that is not installed is no traceback."""

    def absent(_: str) -> None:
        return None

    monkeypatch.setattr(kept_store, "find_spec", absent)

    with pytest.raises(UsageError, match=r"needs asyncpg, cryptography; install .*postgres"):
        open_at(DatabaseUrl(URL))
