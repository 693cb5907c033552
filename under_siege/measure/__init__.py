"""From a suite to records: cases, rounds, warm-up, ceiling."""
