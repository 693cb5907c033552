"""Estimators, intervals, speed correction and comparisons."""
