"""Scripts that run as separate processes. Those that run with the target's Python use no module of `under_siege`."""
