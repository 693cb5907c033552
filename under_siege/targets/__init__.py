"""Select targets from command-line arguments or a suite file."""
