"""Adapters: how prompts reach models, and how what models and providers do comes back."""
