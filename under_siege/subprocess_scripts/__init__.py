"""Scripts that run in processes of their own, mostly with the Python of the target. They import only `common`."""
