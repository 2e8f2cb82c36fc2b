"""Secrets that stores keep beside their sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.errors import StoreError
from toolcrib.store import SqliteStore, Store
from toolcrib.store.cipher import new_key
from toolcrib.store.secret_values import secret_values
from toolcrib.store.shared_store import SharedValue, ValueStore

CANARY = b"a-canary-that-no-clock-shows-4711"


@pytest.fixture
def values(store: Store, monkeypatch: pytest.MonkeyPatch) -> ValueStore:
    monkeypatch.setenv("TOOLCRIB_STORE_KEY", new_key())
    return secret_values(store)


def secret(name: str, version: int = 1, *, expires_at: float | None = None) -> SharedValue:
    return SharedValue(name, CANARY, version, expires_at, is_secret=True)


def test_a_value_is_changed_by_one_writer(values: ValueStore) -> None:
    """Compare-and-swap: a writer that saw an older version changes nothing, in every store."""
    assert values.put_value(secret("a/1"), after=None)
    assert not values.put_value(secret("a/1"), after=None)
    assert values.put_value(secret("a/1", 2), after=1)
    assert not values.put_value(secret("a/1", 3), after=1)
    assert values.put_value(secret("b/1"), after=None)

    found = values.value("a/1")
    assert found is not None
    assert (found.body, found.version) == (CANARY, 2)
    assert [value.name for value in values.values("a/")] == ["a/1"]
    values.delete_value("a/1")
    assert values.value("a/1") is None


def test_an_expired_value_is_gone(values: ValueStore) -> None:
    """It is not found, and its name is free."""
    assert values.put_value(secret("a", expires_at=1.0), after=None)

    assert values.value("a") is None
    assert values.values("") == []
    assert values.put_value(secret("a"), after=None)


def test_a_file_has_no_secret_in_the_clear(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the file nor in its log; another key does not open it, and without one nothing is
    kept.
    """
    monkeypatch.delenv("TOOLCRIB_STORE_KEY", raising=False)
    with SqliteStore(sqlite_path, key=new_key()) as store:
        assert secret_values(store).put_value(secret("a"), after=None)
        files = [path for path in sqlite_path.parent.iterdir() if path.is_file()]
        assert [path for path in files if CANARY in path.read_bytes()] == []
    with (
        SqliteStore(sqlite_path, key=new_key()) as store,
        pytest.raises(StoreError, match="not among the keys"),
    ):
        secret_values(store).value("a")
    with SqliteStore(sqlite_path) as store, pytest.raises(StoreError, match="TOOLCRIB_STORE_KEY"):
        secret_values(store).put_value(secret("b"), after=None)
