"""Monitors that run during the load: pings, response checks, CPU and memory usage, and CPU speed."""
