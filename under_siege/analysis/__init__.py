"""From rounds to results: summaries, rankings, sweeps, thresholds, and when to stop measuring."""
