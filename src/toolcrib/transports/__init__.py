"""The ways in to a runtime; each speaks its operations and events."""
