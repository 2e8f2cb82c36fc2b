"""The model behind the agent: a written scenario in the embedded provider, so that it needs no key.

Put a model of yours in its place: `chat_endpoint("http://127.0.0.1:11434/v1", "qwen3")`.
"""

from __future__ import annotations

from pathlib import Path

from toolcrib.embedded import scripted_model

adapter = scripted_model(Path(__file__).parent / "scenario.yaml")
