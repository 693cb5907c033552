"""The nouns: targets, points, plans, records, findings. Frozen values; only the record knows a file."""
