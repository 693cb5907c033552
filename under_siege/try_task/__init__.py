"""Measure a task without a server and recommend strategies."""
