"""Sample the stacks of a server under load, and say what blocks it."""
