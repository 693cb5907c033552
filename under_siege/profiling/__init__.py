"""Sample the stacks of a server under load, and report what blocks it."""
