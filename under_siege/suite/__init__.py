"""What to measure: targets, suite files, and the expected responses."""
