"""Puts the built console into the wheel."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "toolcrib/transports/http/page"


class ConsoleHook(BuildHookInterface[Any]):
    """Adds console/dist where the server looks for it. Without it, the wheel has no console, and
    its server says so: `make dist` builds it first, and fails when the wheel lacks it.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files. An editable install serves those of the checkout."""
        dist = Path(self.root, "console", "dist")
        if version == "standard" and (dist / "index.html").is_file():
            build_data["force_include"][str(dist)] = PAGE
