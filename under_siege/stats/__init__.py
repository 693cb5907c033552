"""Estimators, confidence intervals, speed correction and comparisons of cases."""
