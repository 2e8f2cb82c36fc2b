"""The bridge into pydantic-ai agents. Imported only when an agent uses a toolset."""
