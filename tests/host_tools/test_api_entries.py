"""Web APIs in a file of host tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.openapi.shop_api import shop_api
from toolcrib.errors import InvalidTool
from toolcrib.host_tools import HostToolRegistry, HostToolsWatcher, load_host_tools_file

FILE = """
openapi:
  shop:
    document: shop.json
    base_url: https://shop.example
    credentials: {HTTPBearer: "${SHOP_TOKEN}"}
    include: [stock, order, cancel]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop.json").write_text(json.dumps(shop_api().openapi()), "utf-8")
    (tmp_path / "tools.yaml").write_text(FILE, "utf-8")
    monkeypatch.setenv("SHOP_TOKEN", "a-token-of-the-shop")
    return tmp_path


def test_the_operations_of_a_document_are_tools_of_the_file(folder: Path) -> None:
    """What cannot be served is noted with its reason."""
    file = load_host_tools_file(folder / "tools.yaml")

    assert [each.name for each in file.definitions] == ["shop_stock", "shop_order"]
    assert [str(origin).rpartition(":")[2] for _, origin in file.with_origins()] == [
        " openapi.shop",
        " openapi.shop",
    ]
    [note] = file.notes
    assert note.startswith("shop_cancel is not served: it needs a credential for APIKeyHeader")


def test_a_missing_variable_and_a_missing_document_name_their_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the file is served then."""
    monkeypatch.delenv("SHOP_TOKEN")
    with pytest.raises(InvalidTool, match=r"tools\.yaml:3: openapi\.shop: .*SHOP_TOKEN"):
        load_host_tools_file(folder / "tools.yaml")

    (folder / "tools.yaml").write_text("openapi: {shop: {document: none.json}}", "utf-8")
    with pytest.raises(InvalidTool, match=r"none\.json: cannot be read"):
        load_host_tools_file(folder / "tools.yaml")


def test_an_unknown_key_is_a_fault(folder: Path) -> None:
    """With the word that was probably meant."""
    (folder / "tools.yaml").write_text("openapi: {shop: {documents: shop.json}}", "utf-8")

    with pytest.raises(InvalidTool, match="document"):
        load_host_tools_file(folder / "tools.yaml")


async def test_a_changed_document_is_loaded_again(folder: Path) -> None:
    """The document belongs to the file that names it."""
    registry = HostToolRegistry()
    watcher = HostToolsWatcher(registry, folder / "tools.yaml")
    await watcher.load()
    assert await watcher.poll() is None

    document = shop_api().openapi()
    document["paths"]["/items/{item}"]["get"]["summary"] = "Count an item"
    (folder / "shop.json").write_text(json.dumps(document), "utf-8")
    reload = await watcher.poll()

    assert reload is not None
    assert [change.name for change in reload.changes] == ["shop_stock"]
    assert await watcher.poll() is None
