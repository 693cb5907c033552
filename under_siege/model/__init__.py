"""Frozen values: targets, cases, suites, records, and the result file."""
