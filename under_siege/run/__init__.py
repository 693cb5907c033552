"""Plan a run, and measure its cases and ceilings in rounds."""
