"""Scripts that run as separate processes. With the Python of the target, they import only `common`."""
