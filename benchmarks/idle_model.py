"""The model of a replica that nobody asks anything."""

from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.testing import ScriptedOpenAI

adapter = OpenAIAdapter(model="m", client=ScriptedOpenAI().client())
