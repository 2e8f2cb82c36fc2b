"""The command `llm`, with the provider as an extra model."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = """\
- model_id: crib
  model_name: gpt-5
  api_base: {url}
  api_key_name: crib
- model_id: crib-responses
  model_name: gpt-5
  api_base: {url}
  api_key_name: crib
  responses: true
"""


def ask(folder: str, *arguments: str) -> str:
    """What the command prints."""
    environment = {**os.environ, "LLM_USER_PATH": folder}
    environment.pop("PYTHONPATH", None)
    command = [str(Path(sys.executable).parent / "llm"), *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as opened:
        text = MODELS.format(url=os.environ["PROVIDER_URL"])
        Path(opened, "extra-openai-models.yaml").write_text(text)
        ask(opened, "keys", "set", "crib", "--value", os.environ["TOKEN"])
        for model in ("crib", "crib-responses"):
            assert ask(opened, "-m", model, "Say hello") == "Hello from the provider."
            print(f"{model}: an answer")
