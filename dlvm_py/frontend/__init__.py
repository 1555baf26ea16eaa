"""Python functions to raw IR: what they capture, their syntax trees, and their translation."""
