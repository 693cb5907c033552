"""Compare two results: what changed, and by how much."""
