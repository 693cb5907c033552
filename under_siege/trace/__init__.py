"""Trace a few requests and draw when each one ran."""
