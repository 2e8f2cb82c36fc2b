"""The codecs that an OpenAI adapter starts with."""

import subprocess
import sys

from toolcrib.adapters.openai.adapter import default_codecs


def test_every_codec_stands_under_its_kind() -> None:
    """H31, N32: one central map, and no codec can be looked up by another's kind."""
    codecs = default_codecs()

    assert {"code_interpreter", "file_search", "web_search"} <= set(codecs)
    assert all(codec.kind == kind for kind, codec in codecs.items())


def test_a_mapping_can_be_changed_without_changing_others() -> None:
    """H31: codecs are replaceable per adapter."""
    default_codecs().clear()

    assert "web_search" in default_codecs()


def test_codecs_do_not_load_the_sdk() -> None:
    """H1: codecs work on plain JSON; the SDK is loaded by whoever sends a request."""
    code = (
        "import sys, toolcrib.adapters.openai.adapter as r; r.default_codecs(); "
        "print('openai' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
