"""The project file `toolcrib.yaml`: what a folder's tools, policy, model, store and server are.

Every command finds it from the working directory upwards. Flags override it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.project.project import Project
    from toolcrib.project.project_file import find_project_file, project_schema, read_project

__all__ = ["Project", "find_project_file", "project_schema", "read_project"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.project.project": ("Project",),
            "toolcrib.project.project_file": (
                "find_project_file",
                "project_schema",
                "read_project",
            ),
        },
    )
