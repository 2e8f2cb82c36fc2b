"""simonw/llm with an extra model in its default form, chat completions.

Run it: `python -m tests.clients.llm URL TOKEN`, with llm installed beside this Python, against
`tests.clients.demo_provider`. Status 0: every answer was right.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = """\
- model_id: crib
  model_name: demo
  api_base: {url}
  api_key_name: crib
  supports_tools: true
  supports_schema: true
"""
FUNCTION = "def add(a: int, b: int) -> int:\n    return a + b"


def main(url: str, token: str) -> None:
    command = str(Path(sys.executable).with_name("llm"))
    with tempfile.TemporaryDirectory() as home:
        Path(home, "extra-openai-models.yaml").write_text(MODELS.format(url=json.dumps(url)))
        environment = {**os.environ, "LLM_USER_PATH": home}

        def run(*arguments: str) -> str:
            done = subprocess.run(
                [command, *arguments], env=environment, capture_output=True, text=True, check=True
            )
            return done.stdout.strip()

        run("keys", "set", "crib", "--value", token)
        assert run("-m", "crib", "one") == "Heard 1: one"
        assert run("-m", "crib", "-c", "two") == "Heard 2: two"
        assert run("-m", "crib", "--no-stream", "one") == "Heard 1: one"
        assert json.loads(run("-m", "crib", "--schema", "total int", "sum")) == {"total": 21}
        assert run("-m", "crib", "--functions", FUNCTION, "add") == "The tool says 42"


if __name__ == "__main__":
    main(*sys.argv[1:])
