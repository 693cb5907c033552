"""Analyse rounds: summaries, rankings, sweeps, requirements, and the rule to stop measuring."""
