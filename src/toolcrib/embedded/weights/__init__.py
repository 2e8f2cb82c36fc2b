"""Model files: the catalog of known models and their download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.embedded.weights.catalog": (
                "MODELS",
                "ModelFile",
                "find_model",
                "model_folder",
            ),
            "toolcrib.embedded.weights.download": ("pull",),
        },
    )
