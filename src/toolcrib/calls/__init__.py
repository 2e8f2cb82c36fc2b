"""What happens to a call: the executor, the stages of its path, and their limits."""
