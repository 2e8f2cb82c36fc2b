"""Write the table of keys on the page of the project file, from the schema and the settings.

python scripts/project_keys.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolcrib.project import project_schema
from toolcrib.project.settings import SETTINGS

PAGE = Path(__file__).parents[1] / "docs" / "project.md"
MARK = "<!-- keys -->\n"
WHOLE = ("instructions", "mcp_servers")
"""Keys that are one row, whatever they hold."""


def table() -> str:
    """The table: a row for each key, with the flag that is the same."""
    return "\n".join(["| key | flag | meaning |", "|---|---|---|", *_rows(project_schema()), ""])


def updated(page: str) -> str:
    """The page with the table as it is now."""
    return page.split(MARK)[0] + MARK + table()


def _rows(node: dict[str, Any], path: str = "") -> Iterator[str]:
    node = _resolved(node)
    if "properties" in node.get("items", {}):
        node, path = node["items"], f"{path}[]"
    is_row = path in WHOLE or path.startswith("hosted_tools.") or "properties" not in node
    if path and is_row:
        flags = [setting.flag for setting in SETTINGS if setting.key == path]
        shown = ", ".join(f"`{flag}`" for each in flags for flag in each.split("/"))
        yield f"| `{path}` | {shown} | {_meaning(node)} |"
        return
    for key, member in node["properties"].items():
        yield from _rows(member, f"{path}.{key}" if path else key)


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    shared = project_schema()["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return {**shared, **node}


def _meaning(node: dict[str, Any]) -> str:
    text = node.get("description", "").rstrip(".").replace("|", "\\|")
    default = node.get("default")
    if default is None:
        return text
    return f"{text} ({str(default).lower() if isinstance(default, bool) else default})"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text("utf-8")), "utf-8")
