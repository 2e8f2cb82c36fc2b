"""A model that runs in this process."""
