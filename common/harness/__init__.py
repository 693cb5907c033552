"""Measuring: start, drive, probe, sample, record. Knows nothing of how results look."""
