"""The command that installs an extra into this installation of the package.

A registry cannot give what was installed from a checkout, a file or an address: then the command
names that place.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

PACKAGE = "toolcrib"


def install_command(extra: str) -> str:
    """The `pip install` command for an extra, ready for a shell."""
    return f"pip install {_requirement(extra)}"


def _requirement(extra: str) -> str:
    origin = _origin()
    url: str = origin.get("url", "")
    parts = urlsplit(url)
    if parts.scheme == "file":
        path = unquote(parts.path)
        option = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return f"{option}{shlex.quote(f'{path}[{extra}]')}"
    if vcs := origin.get("vcs_info"):
        revision = vcs.get("requested_revision") or vcs.get("commit_id") or ""
        url = f"{vcs['vcs']}+{url}{'@' if revision else ''}{revision}"
    return shlex.quote(f"{PACKAGE}[{extra}] @ {url}" if url else f"{PACKAGE}[{extra}]")


def _origin() -> dict[str, Any]:
    """Where the package was installed from (PEP 610); empty for a registry."""
    # Only a hint needs it, and it is slow to import.
    from importlib.metadata import Distribution, PackageNotFoundError

    try:
        text = Distribution.from_name(PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:
        # Not installed, only on the path: a checkout, if the project file is there.
        checkout = Path(__file__).parents[2]
        is_checkout = (checkout / "pyproject.toml").is_file()
        return {"url": checkout.as_uri(), "dir_info": {"editable": True}} if is_checkout else {}
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return {}
