"""What was measured: cases, raw values, and their file format."""
