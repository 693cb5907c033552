"""The command `run`: the comparison as a table and a page."""
