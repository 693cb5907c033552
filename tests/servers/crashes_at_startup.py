"""A server that exits before it listens."""

import sys

print("some words before", file=sys.stderr)
sys.exit("no database at db:5432")
