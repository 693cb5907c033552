"""Compare two results: which cases changed, by how much, and whether that is significant."""
