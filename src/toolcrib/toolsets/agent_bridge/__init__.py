"""Toolsets inside pydantic-ai agents. Imported only when such an agent asks for something."""
