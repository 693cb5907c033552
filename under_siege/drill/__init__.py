"""The command `drill`: inject faults and measure what they do."""
