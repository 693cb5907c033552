"""The load tools: what starts each, and what its output means. Starts nothing."""
