"""Scripts that run as separate processes. Those that run with the Python of the target import only `common`."""
