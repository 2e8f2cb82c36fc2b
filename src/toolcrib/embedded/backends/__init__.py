"""The brains that come with the provider."""
