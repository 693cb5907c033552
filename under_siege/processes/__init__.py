"""Start processes, and stop all of them in any case."""
