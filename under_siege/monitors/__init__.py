"""Monitors that run during the load: pings, answer checks, CPU and memory usage, and CPU speed."""
