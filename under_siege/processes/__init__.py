"""Start processes, and always stop all of them."""
