"""Trace a few requests and draw what ran when."""
