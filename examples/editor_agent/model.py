"""The model behind the agent: a written scenario in the embedded provider, so that it needs no key.

Put a model of yours in its place: `ChatBackend("qwen3", base_url="http://127.0.0.1:11434/v1")`.
"""

from __future__ import annotations

import atexit
from pathlib import Path

from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.embedded import EmbeddedProvider
from toolcrib.embedded.backends import ScriptedBackend

backend = ScriptedBackend.from_file(Path(__file__).parent / "scenario.yaml")
provider = EmbeddedProvider(backend)
provider.__enter__()
atexit.register(provider.__exit__)
adapter = OpenAIAdapter(model=backend.name, client=provider.client())
