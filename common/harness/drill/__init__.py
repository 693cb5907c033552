"""The drill: faults on purpose, and what became of the load and the pings beside it."""
