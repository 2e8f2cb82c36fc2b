"""Model files: the catalog of known models and their download.

Names load their module when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.embedded.weights.catalog import MODELS, ModelFile, find_model, model_folder
    from toolcrib.embedded.weights.download import pull

__all__ = [
    "MODELS",
    "ModelFile",
    "find_model",
    "model_folder",
    "pull",
]

_HOMES = {
    "MODELS": "catalog",
    "ModelFile": "catalog",
    "find_model": "catalog",
    "model_folder": "catalog",
    "pull": "download",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
