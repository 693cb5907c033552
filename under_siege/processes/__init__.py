"""Start processes and stop all of them, whatever happens."""
