"""What it means: estimates, intervals, ranks and verdicts, computed from records."""
