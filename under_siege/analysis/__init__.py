"""Summarize and rank cases, analyse sweeps, check requirements, and decide which cases need more rounds."""
