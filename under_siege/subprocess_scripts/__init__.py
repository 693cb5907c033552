"""Scripts that run as separate processes, mostly with the Python of the target. They import only `common`."""
