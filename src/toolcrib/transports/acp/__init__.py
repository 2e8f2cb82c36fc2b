"""The Agent Client Protocol: a runtime as the agent of an editor, on standard input and output."""
