"""Virtual environments, services and load tools for a run, and the checks of `bench.py doctor`."""
