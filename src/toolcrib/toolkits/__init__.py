"""Tools with an implementation in the box: apply_patch and memory."""
