"""Stored conversations: items that responses continue and add to."""
