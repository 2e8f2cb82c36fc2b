"""Files of an application that tests write: modules, host tools files, installed packages."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

HANDLERS = """\
import json

async def query(input, context):
    return f"{context.session_id} ran {input['sql']}"

def now(input, context):
    return "now"

def per_session(context):
    return lambda input, call: f"made for {context.session_id}"

not_callable = 5

class Desk:
    @staticmethod
    def look(input, context):
        return "looked"
"""

QUERY = """\
tools:
  - name: shop.query
    description: "Query the shop's database"
    module: shop_handlers
    function: query
    parameters:
      type: object
      properties:
        sql:
          type: string
          description: "SQL query to execute"
      required: [sql]
"""


@dataclass(frozen=True, slots=True)
class Project:
    """A folder that a program runs in."""

    folder: Path

    def write(self, path: str, text: str) -> Path:
        """Write a file, with the folders it lies in."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), "utf-8")
        return file

    def shop(self, tools: str = QUERY) -> Path:
        """The handlers of the shop, and the file that names them."""
        self.write("shop_handlers.py", HANDLERS)
        return self.write("shop.yaml", tools)

    def install(self, package: str, **entry_points: str) -> None:
        """Install a package that declares host tools, as far as Python looks for it."""
        info = f"{package}-1.0.dist-info"
        self.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name} = {target}" for name, target in entry_points.items()]
        text = "\n".join(["[toolcrib.host_tools]", *lines, ""])
        self.write(f"{info}/entry_points.txt", text)
