"""Analyse rounds: summaries, rankings, sweeps, requirements, and the stopping rule."""
