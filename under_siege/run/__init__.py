"""Measure: the plan, the rounds, one case, the ceiling."""
