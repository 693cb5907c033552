"""Start processes, and make sure that all of them stop."""
