"""Models that run in the process: which there are, and how they come to this machine."""
